//! May one more pass, in a limit that counts in windows?
//!
//! Here all is decided by what this instance counts; `counting` is for what it shares.

use std::sync::Arc;

use super::seen::Fullest;
use super::{Asker, Limiter};
use crate::bucket::ask::{Ask, Census, Entry, Refusal, Usable};
use crate::bucket::place::{Held, Turn};
use crate::key::KeyId;
use crate::limit::Policy;
use crate::line::Crowded;
use crate::metrics::{Fate, Reason};
use crate::store::{BucketName, TableFull};
use crate::units::{Clock, Moment, Remaining};
use crate::window::{Kind, Loan, Tally, Verdict, Window};

impl Limiter {
    /// Lets a request pass, or refuses it.
    pub(super) fn ask_window(
        self: &Arc<Self>,
        policy: &Policy,
        window: &Window,
        ask: &Ask<'_>,
    ) -> Result<Entry, Refusal> {
        if let Some(store) = &self.store {
            return self.ask_shared_window(store, policy, window, ask);
        }
        let now = self.time(policy, window, ask.key);
        let verdict = self.with_tally(window, ask.key, now, |tally| {
            tally.ask(window, now, ask.cost)
        });
        self.pass_or_refuse(policy, ask, verdict)
    }

    /// What was decided here, in the words of all limits.
    pub(super) fn pass_or_refuse(
        self: &Arc<Self>,
        policy: &Policy,
        ask: &Ask<'_>,
        verdict: Result<Verdict, TableFull>,
    ) -> Result<Entry, Refusal> {
        match verdict {
            Ok(Verdict::Passed(loan)) if ask.usable != Usable::ForGood && !policy.dry_run => {
                let held = Held::Share(loan);
                let turn = Turn::at_once(self, ask.key, held, ask.cost, ask.timer);
                Ok(Entry::Turn(turn))
            }
            Ok(Verdict::Passed(_)) => {
                self.count(&Entry::Passed, ask.cost);
                Ok(Entry::Passed)
            }
            Ok(Verdict::Refused(free)) => self.refuse(policy, ask.key, Crowded::Full(free)),
            Err(TableFull) if policy.dry_run => {
                self.metrics.would_refuse(Reason::Keys);
                Ok(Entry::Passed)
            }
            Err(TableFull) => Err(Refusal::shared(policy, Reason::Keys)),
        }
    }

    /// Who passed was not served: it is as if it had never come.
    pub(in crate::bucket) fn uncount(self: &Arc<Self>, key: KeyId, loan: Loan) {
        let tells = self
            .windows
            .with_known(key, |tally| tally.give_back(loan))
            .unwrap_or(false);
        self.metrics.slots(Fate::Spare, loan.cost().into());
        if tells {
            self.tell_store(key);
        }
    }

    /// What would pass now under a key, and when so much would.
    pub(super) fn remaining_in(
        &self,
        policy: &Policy,
        window: &Window,
        key: KeyId,
        cost: u32,
    ) -> Remaining {
        let now = self.time(policy, window, key);
        let part = self.present_part(policy, window, key);
        self.windows
            .with_known(key, |tally| tally.remaining(&part, now, cost))
            .unwrap_or_else(|| Tally::<Asker>::new(&part).remaining(&part, now, cost))
    }

    /// What time it is by the clock that windows are told by: the store's, where there is
    /// one; else this process's, and the wall's where windows begin on the full hour.
    pub(super) fn time(&self, policy: &Policy, window: &Window, key: KeyId) -> Moment {
        let here = self.clock.now();
        match &self.store {
            Some(store) => {
                let name = BucketName {
                    limit: &policy.name,
                    key,
                };
                store.time(name, here).unwrap_or_else(Clock::utc)
            }
            None if window.kind() == Kind::Fixed => Clock::utc(),
            None => here,
        }
    }

    /// Does something with what passed under a key.
    pub(super) fn with_tally<R>(
        &self,
        window: &Window,
        key: KeyId,
        now: Moment,
        act: impl FnOnce(&mut Tally<Asker>) -> R,
    ) -> Result<R, TableFull> {
        let fresh = || Tally::new(window);
        // What the store knows may be forgotten here.
        let policy = self.policy.load();
        let is_idle = |key, tally: &Tally<Asker>, _| {
            tally.is_kept_elsewhere()
                || policy
                    .rule_of(key)
                    .window()
                    .is_none_or(|window| tally.is_idle(window, now))
        };
        self.windows
            .with(key, || self.clock.now(), fresh, is_idle, act)
    }

    /// Forgets idle keys in the `part`th of `parts` parts.
    pub(super) fn sweep_windows(
        &self,
        policy: &Policy,
        window: &Window,
        part: usize,
        parts: usize,
    ) {
        let now = self.time_for_all(window);
        self.windows.sweep(part, parts, |key, tally| {
            policy
                .rule_of(key)
                .window()
                .is_none_or(|window| tally.is_idle(window, now))
        });
    }

    /// What the keys look like, and how full the fullest of them is.
    pub(super) fn observe_windows(&self, policy: &Policy, window: &Window) -> (Census, Fullest) {
        let now = self.time_for_all(window);
        let mut fullest = Fullest::default();
        let mut census = Census::default();
        self.windows.each(|key, tally| {
            let window = policy.rule_of(key).window().unwrap_or(window);
            census.buckets += 1;
            let left = tally.remaining(window, now, 1).admits;
            fullest.see(left, window.limit().into());
        });
        (census, fullest)
    }

    /// Looks at how much of the window each key has used.
    pub(in crate::bucket) fn each_used(&self, window: &Window, mut look: impl FnMut(KeyId, u64)) {
        let now = self.time_for_all(window);
        let policy = self.policy.load();
        self.windows.each(|key, tally| {
            let window = policy.rule_of(key).window().unwrap_or(window);
            let left = tally.remaining(window, now, 1).admits;
            look(key, u64::from(window.limit()).saturating_sub(left));
        });
    }

    /// Whether anything passed under a key of late.
    pub(in crate::bucket) fn has_tally(&self, key: KeyId) -> bool {
        self.windows.with_known(key, |_| ()).is_some()
    }

    /// As `time`, near enough for all keys at once.
    fn time_for_all(&self, window: &Window) -> Moment {
        if self.store.is_some() || window.kind() == Kind::Fixed {
            Clock::utc()
        } else {
            self.clock.now()
        }
    }
}
