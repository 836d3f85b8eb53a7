//! Who gets the slots that are due?

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Limiter, SlotTimer, Waiter, Wake};
use crate::bucket::gate::{GateId, Permit};
use crate::bucket::place::{Offer, Turn};
use crate::key::KeyId;
use crate::line::{Call, Promise};
use crate::metrics::Fate;
use crate::units::Moment;

impl Limiter {
    /// The timer rang for a bucket.
    pub fn rang(when: Moment, wake: Wake) {
        let Wake { limiter, key } = wake;
        if limiter.table.with_known(key, |bucket| bucket.rang(when)) == Some(true) {
            limiter.flow(key);
        }
    }

    /// Hands out whatever slots are due, to the first ones who can go.
    pub(in crate::bucket) fn flow(self: &Arc<Self>, key: KeyId) {
        self.flow_with(key, None);
    }

    /// A permit came to one of a bucket's line: it is for the first who waits for
    /// that gate, whoever stood before it for them.
    pub(in crate::bucket) fn admit(self: &Arc<Self>, key: KeyId, gate: GateId, permit: Permit) {
        self.with_known(key, |bucket, _| {
            bucket.ready_first(|waiter| waiter.gate == Some(gate))
        });
        self.flow_with(key, Some((gate, permit)));
    }

    fn flow_with(self: &Arc<Self>, key: KeyId, mut permit: Option<(GateId, Permit)>) {
        loop {
            let policy = self.policy.load();
            let pace = self.pace(&policy, key);
            let mut call: Option<(u64, Call)> = None;
            let mut missed = 0;
            let mut retries = false;
            let mut promises: SmallVec<[Promise<Waiter>; 2]> = SmallVec::new();
            let mut alarm = None;
            let mut handed_out = Moment::default();
            self.with_known(key, |bucket, now| {
                handed_out = now;
                while let Some(promise) = bucket.promise(&pace, now) {
                    promises.push(promise);
                }
                let timer = bucket.first().map(|waiter| waiter.timer.clone());
                if let Some(store) = &self.store {
                    let reach = store.reach();
                    retries = bucket.takes_retry(now);
                    missed = bucket.missed();
                    let number = store.number();
                    call = bucket
                        .call(&pace, &reach, now, || number)
                        .map(|call| (number, call));
                    alarm = bucket.arm_shared(&pace, &reach).map(|when| (when, timer));
                } else {
                    alarm = bucket.arm(&pace).map(|when| (when, timer));
                }
            });
            self.metrics.slots(Fate::Missed, missed);
            if retries {
                self.align(&policy, key);
            }
            if let Some((number, call)) = call {
                self.say(key, number, call);
            }
            match alarm {
                Some((when, Some(timer))) => self.set(Some(when), key, &timer),
                Some((when, None)) => self.call_later(when, key),
                None => (),
            }
            // Outside the lock: a turn that can't be delivered goes back through it.
            let undelivered = promises
                .into_iter()
                .filter_map(|promise| self.deliver(key, promise, handed_out, &mut permit));
            if undelivered.map(Turn::give_back).count() == 0 && !retries {
                return;
            }
        }
    }

    /// Hands a slot to the one whose turn it is; the slot, where it has gone.
    fn deliver(
        self: &Arc<Self>,
        key: KeyId,
        promise: Promise<Waiter>,
        now: Moment,
        permit: &mut Option<(GateId, Permit)>,
    ) -> Option<Turn> {
        self.parted(key);
        self.metrics.slots(Fate::Missed, promise.missed);
        self.metrics
            .late(now.since(promise.due.max(promise.ticket.joined())));
        let waited = now.since(promise.ticket.joined());
        let meant = permit.take_if(|(gate, _)| promise.waiter.gate == Some(*gate));
        let turn = Turn::in_turn(self, key, &promise, waited, meant.map(|(_, permit)| permit));
        match promise.waiter.offer.send(Offer::Turn(turn)) {
            Err(Offer::Turn(turn)) => Some(turn),
            Ok(()) | Err(_) => None,
        }
    }

    pub(super) fn set(self: &Arc<Self>, alarm: Option<Moment>, key: KeyId, timer: &SlotTimer) {
        if let Some(when) = alarm {
            timer.set(
                when,
                Wake {
                    limiter: Arc::clone(self),
                    key,
                },
            );
        }
    }
}
