//! Who is next to join a line that was full when their turn came?

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::limiter::Limiter;
use crate::key::KeyId;

/// Those who stand before a limit's full lines, first come, first served. They
/// keep their places in the lines that they come from.
#[derive(Debug, Default)]
pub(super) struct Doors {
    knocking: AtomicUsize,
    /// Held to look at one door, never across an await.
    doors: Mutex<HashMap<KeyId, Door>>,
}

/// The door of one line.
#[derive(Debug, Default)]
struct Door {
    came: u64,
    /// All who stand before it, told or not.
    standing: BTreeSet<u64>,
    /// Those to be told, in the order in which they came.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One who stands before a line; dropped when inside, or gone.
#[derive(Debug)]
pub(super) struct Knock {
    limiter: Arc<Limiter>,
    key: KeyId,
    number: u64,
    told: Option<oneshot::Receiver<()>>,
}

impl Doors {
    /// A place has become free: the first one before the door may try.
    pub(super) fn open(&self, key: KeyId) {
        if self.knocking.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut doors = self.doors.lock();
        let Some(door) = doors.get_mut(&key) else {
            return;
        };
        while let Some((_, first)) = door.waiting.pop_first() {
            if first.send(()).is_ok() {
                return;
            }
        }
    }

    /// The limit has changed: there may be room everywhere.
    pub(super) fn open_all(&self) {
        let keys: Vec<KeyId> = self.doors.lock().keys().copied().collect();
        for key in keys {
            self.open(key);
        }
    }

    /// Whether someone stands before the line of `key`.
    pub(super) fn is_taken(&self, key: KeyId) -> bool {
        self.knocking.load(Ordering::SeqCst) > 0 && self.doors.lock().contains_key(&key)
    }
}

impl Knock {
    /// Stands before the line of `key`, behind all who came before.
    pub(super) fn at(limiter: &Arc<Limiter>, key: KeyId) -> Self {
        let doors = limiter.doors();
        doors.knocking.fetch_add(1, Ordering::SeqCst);
        let mut all = doors.doors.lock();
        let door = all.entry(key).or_default();
        door.came = door.came.saturating_add(1);
        let number = door.came;
        door.standing.insert(number);
        drop(all);
        let limiter = Arc::clone(limiter);
        Self {
            limiter,
            key,
            number,
            told: None,
        }
    }

    /// Wants to be told, in its old order, of the next place that becomes free.
    pub(super) fn stand(&mut self) {
        let (tell, told) = oneshot::channel();
        if let Some(door) = self.limiter.doors().doors.lock().get_mut(&self.key) {
            door.waiting.insert(self.number, tell);
        }
        self.told = Some(told);
    }

    /// Resolves when it is told.
    pub(super) async fn opened(&mut self) {
        if let Some(told) = &mut self.told {
            // Nobody drops the other end but by telling, or by standing anew.
            let _told = told.await;
            self.told = None;
        }
    }

    /// Whether nobody came before it.
    pub(super) fn is_first(&self) -> bool {
        let doors = self.limiter.doors().doors.lock();
        let first = doors.get(&self.key).and_then(|door| door.standing.first());
        first.is_none_or(|first| *first == self.number)
    }
}

impl Drop for Knock {
    fn drop(&mut self) {
        let doors = self.limiter.doors();
        let mut all = doors.doors.lock();
        if let Some(door) = all.get_mut(&self.key) {
            door.waiting.remove(&self.number);
            door.standing.remove(&self.number);
            if door.standing.is_empty() {
                all.remove(&self.key);
            }
        }
        drop(all);
        doors.knocking.fetch_sub(1, Ordering::SeqCst);
        // There may be room for the next one too, and nobody else may tell it.
        doors.open(self.key);
    }
}
