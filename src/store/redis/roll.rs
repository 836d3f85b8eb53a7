//! Who else lives?

/// The instances that share a store, as the last heartbeat told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roll {
    /// How many live, this one included.
    pub(super) live: u32,
    /// How many of them come before this one, by name.
    pub(super) rank: u32,
    /// Those that don't any more.
    pub(super) dead: Vec<String>,
    /// Goes up with each change of the dead.
    pub(super) edition: u64,
}

impl Roll {
    /// What `heartbeat.lua` replied.
    pub(super) fn next(&self, live: u32, rank: u32, mut dead: Vec<String>) -> Self {
        dead.sort_unstable();
        // An id that isn't one of ours would be read as several.
        dead.retain(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let edition = self.edition + u64::from(dead != self.dead);
        Self {
            live: live.max(1),
            rank: rank.min(live.saturating_sub(1)),
            dead,
            edition,
        }
    }
}
