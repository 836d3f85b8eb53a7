//! What does an instance know of a key that it shares, and when must it ask?
//!
//! The store counts. Here is who asks it, what came back, and for how long the last
//! answer alone is reason enough to refuse. Where the store is away the instance goes
//! on from that answer with its part of the limit, and tells later what passed.

use std::time::Duration;

use smallvec::SmallVec;

use super::Window;
use super::sync::{Answer, Call, Known, Owed, Run};
use super::tally::{Loan, Tally, Verdict};
use crate::units::Moment;

/// So much before a key is free the store is asked again: clocks are told apart no
/// better than this.
const HAIR: Duration = Duration::from_millis(2);

/// So long an answer is reason enough to refuse, whatever may have been missed.
const TRUST: Duration = Duration::from_secs(5);

/// Departures that one call tells of.
const MOST_RETURNED: usize = 512;

/// One who asks the store.
#[derive(Debug)]
pub struct Want<T> {
    /// What it costs.
    pub cost: u32,
    /// How it is reached; not at all where it only counts.
    pub waiter: Option<T>,
}

/// What became of those who asked.
#[derive(Debug)]
pub struct Heard<T> {
    /// Those who pass.
    pub passed: Vec<(T, Loan)>,
    /// Those who don't, and when they may.
    pub refused: Vec<(T, Duration)>,
    /// How many of those who only count would have been refused.
    pub would_refuse: u32,
}

/// An instance's part of a key.
#[derive(Debug)]
pub(super) struct Part<T> {
    /// Whether the store counts; else this instance by itself.
    attached: bool,
    known: Option<Known>,
    wanting: Vec<Want<T>>,
    /// Those of the call under way.
    asked: Vec<Want<T>>,
    returned: Vec<Loan>,
    owed: SmallVec<[Owed; 2]>,
    /// What the call under way tells of that.
    telling: SmallVec<[Owed; 2]>,
    /// Whether somebody will see to it that this is told.
    settling: bool,
    /// When the store said last how the key stands.
    heard: Option<Moment>,
    /// The number of the call under way.
    flying: Option<u64>,
    /// Until when nobody passes, as the store said itself.
    full_until: Option<Moment>,
    /// The number of a call whose answer may be outdated when it comes.
    doubted: Option<u64>,
    must_ask: bool,
    retry: Option<Moment>,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self {
            attached: false,
            known: None,
            wanting: Vec::new(),
            asked: Vec::new(),
            returned: Vec::new(),
            owed: SmallVec::new(),
            telling: SmallVec::new(),
            settling: false,
            heard: None,
            flying: None,
            full_until: None,
            doubted: None,
            must_ask: false,
            retry: None,
        }
    }
}

impl<T> Default for Heard<T> {
    fn default() -> Self {
        Self {
            passed: Vec::new(),
            refused: Vec::new(),
            would_refuse: 0,
        }
    }
}

impl<T> Tally<T> {
    /// From now on the store counts.
    pub fn attach(&mut self) {
        self.part.get_or_insert_default().attached = true;
    }

    /// From now on this instance counts by itself, with its part of what is left. Those
    /// who have no answer yet are to be decided here.
    pub fn detach(&mut self, window: &Window, instances: u32, rank: u32) -> Vec<Want<T>> {
        let part = self.part.get_or_insert_default();
        let was_attached = std::mem::replace(&mut part.attached, false);
        part.unsay();
        let mut undecided = std::mem::take(&mut part.asked);
        undecided.append(&mut part.wanting);
        if was_attached {
            self.scale(window, instances, rank);
        }
        undecided
    }

    /// Lets one pass by this instance's own count; the store is told of it later.
    pub fn ask_alone(&mut self, part: &Window, now: Moment, cost: u32) -> Verdict {
        let verdict = self.ask(part, now, cost);
        if let Verdict::Passed(loan) = verdict {
            self.owe(loan.at, loan.cost);
        }
        verdict
    }

    /// Lets one pass, or not, by what the store said no longer than `sync` ago and what
    /// has passed here since; and whether the caller must see to it that this is told, by
    /// `settle`. `None` where it must be asked.
    pub fn ask_between(
        &mut self,
        window: &Window,
        now: Moment,
        cost: u32,
        sync: Duration,
    ) -> Option<(Verdict, bool)> {
        let part = self.part.as_ref().filter(|part| part.attached)?;
        let heard = part.heard?;
        if now.since(heard) >= sync {
            return None;
        }
        let verdict = self.ask_alone(window, now, cost);
        let part = self.part.as_mut()?;
        let owes = matches!(verdict, Verdict::Passed(_)) && !part.settling;
        part.settling |= owes;
        Some((verdict, owes))
    }

    /// What has passed here is told now.
    pub fn settle(&mut self) {
        if let Some(part) = &mut self.part {
            part.settling = false;
        }
    }

    /// Decides for those who have no answer yet, by this instance's own count.
    pub fn decide(&mut self, part: &Window, now: Moment, undecided: Vec<Want<T>>) -> Heard<T> {
        let mut heard = Heard::default();
        for Want { cost, waiter } in undecided {
            match (self.ask_alone(part, now, cost), waiter) {
                (Verdict::Passed(loan), Some(waiter)) => heard.passed.push((waiter, loan)),
                (Verdict::Refused(free), Some(waiter)) => heard.refused.push((waiter, free)),
                (Verdict::Refused(_), None) => {
                    heard.would_refuse = heard.would_refuse.saturating_add(1);
                }
                (Verdict::Passed(_), None) => (),
            }
        }
        heard
    }

    /// Whether the store's last answer alone refuses whoever comes now, and for how long.
    pub fn refusal(&self, window: &Window, now: Moment, cost: u32) -> Option<Duration> {
        let part = self.part.as_ref().filter(|part| part.attached)?;
        part.full_until.filter(|until| now < *until)?;
        Some(self.free_in(window, now, cost))
    }

    /// The store's last answer may be outdated: it must be asked again.
    pub fn doubt(&mut self) {
        if let Some(part) = &mut self.part {
            part.doubt();
        }
    }

    /// How the key stands is to be asked, though nobody wants to pass.
    pub fn look(&mut self) {
        if let Some(part) = &mut self.part {
            part.must_ask = true;
        }
    }

    /// One wants to pass, as soon as the store says so.
    pub fn want(&mut self, cost: u32, waiter: Option<T>) {
        let part = self.part.get_or_insert_default();
        part.wanting.push(Want { cost, waiter });
    }

    /// What is to be said to the store now, under a `number` above all before. Of those
    /// who are gone nothing is said.
    pub fn call(
        &mut self,
        number: impl FnOnce() -> u64,
        is_gone: impl Fn(&T) -> bool,
    ) -> Option<(u64, Call)> {
        let part = self.part.as_mut()?;
        if !part.attached || part.flying.is_some() {
            return None;
        }
        part.wanting
            .retain(|want| !want.waiter.as_ref().is_some_and(&is_gone));
        let has_news = part.must_ask
            || !part.wanting.is_empty()
            || !part.returned.is_empty()
            || !part.owed.is_empty();
        if !has_news {
            return None;
        }
        part.asked = std::mem::take(&mut part.wanting);
        part.must_ask = false;
        let runs = part.asked.chunk_by(|one, next| one.cost == next.cost);
        let kept = part.returned.len().saturating_sub(MOST_RETURNED);
        let call = Call {
            known: part.known,
            owed: part.owed.clone(),
            returned: part.returned.split_off(kept),
            wanted: runs
                .map(|run| Run {
                    count: u32::try_from(run.len()).unwrap_or(u32::MAX),
                    cost: run.first().map_or(0, |want| want.cost),
                })
                .collect(),
        };
        part.telling = std::mem::take(&mut part.owed);
        let number = number();
        part.flying = Some(number);
        Some((number, call))
    }

    /// Takes in the answer to the call of this `number`; `None` where it is not waited
    /// for any more.
    pub fn answered(
        &mut self,
        number: u64,
        window: &Window,
        answer: &Answer,
        now: Moment,
    ) -> Option<Heard<T>> {
        let part = self.part.as_mut()?;
        part.flying.take_if(|flying| *flying == number)?;
        part.telling = SmallVec::new();
        let mut asked = std::mem::take(&mut part.asked).into_iter().peekable();
        let doubted = part.doubted == Some(number);
        self.hear(window, answer, now, doubted);
        let mut heard = Heard::default();
        let mut results = Vec::new();
        let mut cost_of_all = 0_u64;
        for passed in &answer.passed {
            let Some(cost) = asked.peek().map(|want| want.cost) else {
                break;
            };
            let mut nth = 0_u32;
            while let Some(want) = asked.next_if(|want| want.cost == cost) {
                let passes = nth < *passed;
                nth = nth.saturating_add(1);
                let first = cost_of_all;
                if passes {
                    cost_of_all = cost_of_all.saturating_add(u64::from(cost));
                }
                results.push((want, passes.then_some(first)));
            }
        }
        let before = answer.known.number.saturating_sub(cost_of_all);
        // The time that counts, where the store's clock stepped back.
        let at = answer.now.max(self.start());
        for (Want { cost, waiter }, passes) in results {
            match (waiter, passes) {
                (Some(waiter), Some(first)) => heard.passed.push((
                    waiter,
                    Loan {
                        at,
                        number: before.saturating_add(first).saturating_add(1),
                        cost,
                        shared: true,
                    },
                )),
                (Some(waiter), None) => {
                    heard
                        .refused
                        .push((waiter, self.free_in(window, now, cost)));
                }
                (None, Some(_)) => (),
                (None, None) => heard.would_refuse = heard.would_refuse.saturating_add(1),
            }
        }
        Some(heard)
    }

    /// The call of this `number` has no answer and won't have one: those who asked want
    /// it anew. Where it is not the store that is away but this key that is odd, it goes
    /// by itself until `retry`. False where nobody waits for it any more.
    pub fn unanswered(&mut self, number: u64, retry: Option<Moment>) -> bool {
        let Some(part) = &mut self.part else {
            return false;
        };
        if part.flying != Some(number) {
            return false;
        }
        part.unsay();
        let mut asked = std::mem::take(&mut part.asked);
        asked.append(&mut part.wanting);
        part.wanting = asked;
        part.retry = retry;
        true
    }

    /// Whether what went wrong with this key may be tried again.
    pub fn retries(&self, now: Moment) -> bool {
        let retry = self.part.as_ref().and_then(|part| part.retry);
        retry.is_none_or(|retry| retry <= now)
    }

    /// Who passed was not served: it is as if it had never come. Whether the store is
    /// to be told.
    pub fn give_back(&mut self, loan: Loan) -> bool {
        let Some(part) = &mut self.part else {
            self.undo(loan);
            return false;
        };
        part.doubt();
        let is_told = part.attached && !part.owed.iter().any(|owed| owed.at >= loan.at);
        if loan.shared || is_told {
            part.returned.push(loan);
            return part.attached;
        }
        for owed in part.owed.iter_mut().rev() {
            if owed.at >= loan.at {
                owed.cost = owed.cost.saturating_sub(loan.cost);
                break;
            }
        }
        self.undo(loan);
        false
    }

    /// Whether nobody waits for an answer.
    pub(super) fn is_quiet(&self) -> bool {
        let quiet = |part: &Part<T>| part.flying.is_none() && part.wanting.is_empty();
        self.part.as_deref().is_none_or(quiet)
    }

    /// Whether there is something that the store has not been told.
    pub fn is_telling(&self) -> bool {
        self.part.as_deref().is_some_and(|part| {
            let owes = part.owed.iter().any(|owed| owed.cost > 0);
            owes || !part.wanting.is_empty() || !part.returned.is_empty()
        })
    }

    /// Whether the store knows all that is known here: nothing is lost by forgetting it.
    pub fn is_kept_elsewhere(&self) -> bool {
        let attached = |part: &Part<T>| part.attached;
        let kept = self.part.as_deref().is_some_and(attached);
        kept && self.is_quiet() && !self.is_telling()
    }

    /// How many have no answer yet.
    pub fn waiting(&self) -> usize {
        self.part.as_ref().map_or(0, |part| {
            part.wanting.len().saturating_add(part.asked.len())
        })
    }

    fn owe(&mut self, at: Moment, cost: u32) {
        let start = self.start();
        let part = self.part.get_or_insert_default();
        match part.owed.last_mut() {
            // A log's time is that of the last one.
            Some(last) if last.at >= start => {
                last.at = last.at.max(at);
                last.cost = last.cost.saturating_add(cost);
            }
            _ => {
                // Of what lies further back nobody asks any more.
                if part.owed.len() > 1 {
                    part.owed.remove(0);
                }
                part.owed.push(Owed { at, cost });
            }
        }
    }

    fn hear(&mut self, window: &Window, answer: &Answer, now: Moment, doubted: bool) {
        self.tell(window, answer.known.figures);
        self.number = answer.known.number;
        // What has passed here since, it will be told.
        let since = self.part.as_ref().map(|part| part.owed.clone());
        for Owed { at, cost } in since.unwrap_or_default() {
            self.add(at, cost);
        }
        let left = self.remaining(window, now, 1);
        if let Some(part) = &mut self.part {
            part.known = Some(answer.known);
            part.heard = Some(now);
            let full = left.admits == 0 && part.returned.is_empty();
            let free_in = left.free_in.saturating_sub(HAIR).min(TRUST);
            part.full_until = (full && !doubted).then(|| now.after(free_in));
            part.retry = None;
        }
    }
}

impl<T> Part<T> {
    /// The call under way is not waited for any more. What it told of may not have been
    /// heard: better counted twice than not at all. What it gave back may have been:
    /// better once than twice.
    fn unsay(&mut self) {
        self.doubt();
        self.flying = None;
        let since = std::mem::replace(&mut self.owed, std::mem::take(&mut self.telling));
        self.owed.extend(since);
    }

    /// The store's last answer may be outdated, and so may be the one under way: what
    /// others say comes by another connection.
    fn doubt(&mut self) {
        self.full_until = None;
        self.heard = None;
        self.doubted = self.flying;
    }
}
