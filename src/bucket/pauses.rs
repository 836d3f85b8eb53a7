//! Which keys of a limit may not go for now, because somebody said so?

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::key::KeyId;
use crate::units::{Clock, Moment};

/// Pauses of single keys that a limit keeps at once.
pub const MOST_PAUSED_KEYS: usize = 1_000;

/// What is paused in a limit, until when.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// No pause ends later; all that most requests look at.
    last_end: AtomicU64,
    /// Held to look a key up, never across an await.
    ends: Mutex<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    all: Moment,
    keys: HashMap<KeyId, Moment>,
}

/// A limit has no room for one more key's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MOST_PAUSED_KEYS} keys are paused, which is the most")]
pub struct TooManyPaused;

impl Pauses {
    /// Until when nobody of `key` may go; in the past where anyone may.
    pub(super) fn until(&self, key: KeyId, now: Moment) -> Moment {
        if self.last_end.load(Ordering::Acquire) <= now.as_micros() {
            return Moment::default();
        }
        let ends = self.ends.lock();
        let own = ends.keys.get(&key).copied();
        own.unwrap_or_default().max(ends.all)
    }

    /// For how long yet nobody of `key` may go; `None` where anyone may.
    pub(super) fn left(&self, key: KeyId, now: Moment) -> Option<Duration> {
        left(self.until(key, now), now)
    }

    /// The same by `clock`, which is asked only where anything was ever paused.
    pub(super) fn left_by(&self, key: KeyId, clock: Clock) -> Option<Duration> {
        let is_used = self.last_end.load(Ordering::Acquire) != 0;
        is_used.then(|| self.left(key, clock.now())).flatten()
    }

    /// For how long yet nobody of any key may go.
    pub(super) fn left_for_all(&self, now: Moment) -> Option<Duration> {
        left(self.ends.lock().all, now)
    }

    /// The keys that are paused by themselves, and for how long yet.
    pub(super) fn keys(&self, now: Moment) -> Vec<(KeyId, Duration)> {
        let ends = self.ends.lock();
        let keys = ends.keys.iter();
        keys.filter_map(|(key, end)| Some((*key, left(*end, now)?)))
            .collect()
    }

    /// Whatever is paused in `other` is paused here.
    pub(super) fn take_over(&self, other: &Self) {
        let theirs = other.ends.lock();
        let mut ends = self.ends.lock();
        ends.all = theirs.all;
        ends.keys.clone_from(&theirs.keys);
        self.last_end
            .store(other.last_end.load(Ordering::Acquire), Ordering::Release);
    }

    /// A key, or all where there is none, may not go before `end`; at once where that
    /// is past. Whether that is news.
    pub(super) fn set(
        &self,
        key: Option<KeyId>,
        end: Moment,
        now: Moment,
    ) -> Result<bool, TooManyPaused> {
        let mut ends = self.ends.lock();
        ends.keys.retain(|_, end| *end > now);
        let before = match key {
            None => std::mem::replace(&mut ends.all, end),
            Some(key) if end <= now => ends.keys.remove(&key).unwrap_or_default(),
            Some(key) => {
                if !ends.keys.contains_key(&key) && ends.keys.len() >= MOST_PAUSED_KEYS {
                    return Err(TooManyPaused);
                }
                ends.keys.insert(key, end).unwrap_or_default()
            }
        };
        let last = ends.keys.values().copied().max().unwrap_or_default();
        self.last_end
            .store(last.max(ends.all).as_micros(), Ordering::Release);
        Ok(before.max(now) != end.max(now))
    }
}

fn left(end: Moment, now: Moment) -> Option<Duration> {
    Some(end.since(now)).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyHasher;

    fn at(seconds: u64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn key(text: &str) -> KeyId {
        KeyHasher::new("test").hash(text)
    }

    #[test]
    fn a_key_waits_for_its_own_pause_and_for_that_of_all() {
        let pauses = Pauses::default();
        let (a, b) = (key("a"), key("b"));
        assert_eq!(pauses.set(Some(a), at(30), at(10)), Ok(true));
        assert_eq!(pauses.set(None, at(20), at(10)), Ok(true));
        assert_eq!(pauses.until(a, at(10)), at(30));
        assert_eq!(pauses.until(b, at(10)), at(20));
        assert_eq!(pauses.set(None, at(10), at(10)), Ok(true));
        assert_eq!(pauses.left(b, at(11)), None);
        assert_eq!(pauses.left(a, at(11)), Some(Duration::from_secs(19)));
        assert_eq!(pauses.until(a, at(30)), Moment::default());
    }

    #[test]
    fn the_same_pause_again_is_no_news() {
        let pauses = Pauses::default();
        assert_eq!(pauses.set(None, at(20), at(10)), Ok(true));
        assert_eq!(pauses.set(None, at(20), at(11)), Ok(false));
        assert_eq!(pauses.set(None, at(5), at(30)), Ok(false), "it was over");
    }

    #[test]
    fn pauses_are_bounded_and_those_that_are_over_make_room() {
        let pauses = Pauses::default();
        for number in 0..MOST_PAUSED_KEYS {
            let key = key(&number.to_string());
            assert_eq!(pauses.set(Some(key), at(20), at(10)), Ok(true));
        }
        let late = key("late");
        assert_eq!(pauses.set(Some(late), at(20), at(10)), Err(TooManyPaused));
        assert_eq!(pauses.set(Some(late), at(40), at(20)), Ok(true));
        assert_eq!(pauses.keys(at(20)).len(), 1);
    }
}
