//! How are a million keys kept, and how are idle ones forgotten?

use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::key::KeyId;
use crate::units::Moment;

const SHARDS: usize = 256;

/// A full table looks for idle keys no more often than this in one shard, so
/// that a flood of new keys doesn't buy a scan each.
const SWEEP_PAUSE: Duration = Duration::from_millis(100);

/// How many keys all tables of an instance may hold.
#[derive(Debug)]
pub struct Room {
    most: usize,
    taken: AtomicUsize,
}

/// No key is idle and there is no room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key table is full")]
pub struct TableFull;

/// Something for each key, in shards with a lock each. A lock is held for one
/// look at one key, or for a sweep of one shard; never across an await.
#[derive(Debug)]
pub struct Table<V> {
    shards: Box<[Mutex<Shard<V>>]>,
    room: Arc<Room>,
}

#[derive(Debug)]
struct Shard<V> {
    keys: HashMap<KeyId, V, RandomState>,
    swept: Moment,
}

impl Room {
    /// Room for `most` keys.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: AtomicUsize::new(0),
        })
    }

    /// Whether nine tenths are taken.
    pub fn is_tight(&self) -> bool {
        self.taken.load(Ordering::Relaxed) > self.most - self.most / 10
    }

    fn take(&self) -> bool {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn give(&self, count: usize) {
        self.taken.fetch_sub(count, Ordering::Relaxed);
    }
}

impl<V> Table<V> {
    /// An empty table that takes its keys from `room`.
    pub fn new(room: Arc<Room>) -> Self {
        let hasher = RandomState::new();
        let shard = || Shard {
            keys: HashMap::with_hasher(hasher.clone()),
            swept: Moment::default(),
        };
        let shards = std::iter::repeat_with(|| Mutex::new(shard()))
            .take(SHARDS)
            .collect();
        Self { shards, room }
    }

    /// Does something with what is kept for `key`, made where there is nothing.
    /// Where the table is full, idle keys make room; what still owes stays. What time
    /// it is is only asked then.
    pub fn with<R>(
        &self,
        key: KeyId,
        now: impl FnOnce() -> Moment,
        fresh: impl FnOnce() -> V,
        is_idle: impl Fn(KeyId, &V, Moment) -> bool,
        act: impl FnOnce(&mut V) -> R,
    ) -> Result<R, TableFull> {
        let mut shard = self.shard(key).lock();
        if let Some(value) = shard.keys.get_mut(&key) {
            return Ok(act(value));
        }
        if !self.room.take() {
            let now = now();
            if now.since(shard.swept) < SWEEP_PAUSE {
                return Err(TableFull);
            }
            shard.swept = now;
            self.room
                .give(shard.sweep(|key, value| is_idle(key, value, now)));
            if !self.room.take() {
                return Err(TableFull);
            }
        }
        Ok(act(shard.keys.entry(key).or_insert_with(fresh)))
    }

    /// Does something with what is kept for `key`, if anything is.
    pub fn with_known<R>(&self, key: KeyId, act: impl FnOnce(&mut V) -> R) -> Option<R> {
        self.shard(key).lock().keys.get_mut(&key).map(act)
    }

    /// Forgets idle keys in the `part`th of `parts` parts of the table.
    pub fn sweep(&self, part: usize, parts: usize, is_idle: impl Fn(KeyId, &V) -> bool) {
        for shard in self.shards.iter().skip(part % parts).step_by(parts) {
            let idle = shard.lock().sweep(&is_idle);
            self.room.give(idle);
        }
    }

    /// Looks at everything that is kept, one shard at a time.
    pub fn each(&self, mut look: impl FnMut(KeyId, &mut V)) {
        for shard in &self.shards {
            shard
                .lock()
                .keys
                .iter_mut()
                .for_each(|(key, value)| look(*key, value));
        }
    }

    /// How many keys are kept.
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().keys.len())
            .sum()
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: KeyId) -> &Mutex<Shard<V>> {
        self.shards
            .get(key.spread(SHARDS))
            .expect("a key spreads below the number of shards")
    }
}

impl<V> Drop for Table<V> {
    fn drop(&mut self) {
        self.room.give(self.len());
    }
}

impl<V> Shard<V> {
    fn sweep(&mut self, is_idle: impl Fn(KeyId, &V) -> bool) -> usize {
        let before = self.keys.len();
        self.keys.retain(|key, value| !is_idle(*key, value));
        if self.keys.capacity() > self.keys.len().saturating_mul(4).saturating_add(64) {
            self.keys.shrink_to(self.keys.len().saturating_mul(2));
        }
        before - self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyHasher;

    fn keys(count: u32) -> Vec<KeyId> {
        let hasher = KeyHasher::new("test");
        (0..count).map(|n| hasher.hash(&n.to_string())).collect()
    }

    fn put(table: &Table<bool>, key: KeyId, now: u64) -> Result<bool, TableFull> {
        table.with(
            key,
            || Moment::from_micros(now),
            || false,
            |_, idle, _now| *idle,
            |value| *value,
        )
    }

    #[test]
    fn a_full_table_forgets_only_what_is_idle() {
        let (room, keys) = (Room::new(10), keys(1_000));
        let table = Table::new(Arc::clone(&room));
        let admitted = keys
            .iter()
            .filter(|key| put(&table, **key, 1_000_000).is_ok())
            .count();
        assert_eq!(
            (admitted, table.len()),
            (10, 10),
            "ten that owe stay, the rest is refused"
        );
        table.each(|_, idle| *idle = true);
        let admitted = keys
            .iter()
            .filter(|key| put(&table, **key, 2_000_000).is_ok())
            .count();
        assert!(
            admitted > 10 && table.len() <= 10,
            "idle keys made room for {admitted}"
        );
    }

    #[test]
    fn room_comes_back_with_a_sweep_and_with_the_table() {
        let (room, keys) = (Room::new(100), keys(100));
        let table = Table::new(Arc::clone(&room));
        for key in &keys {
            put(&table, *key, 0).expect("room");
        }
        assert!(room.is_tight());
        table.each(|key, idle| *idle = key != keys[7]);
        (0..4).for_each(|part| table.sweep(part, 4, |_, idle| *idle));
        assert_eq!(table.len(), 1);
        assert_eq!(table.with_known(keys[7], |_| ()), Some(()));
        drop(table);
        assert_eq!(room.taken.load(Ordering::Relaxed), 0);
    }
}
