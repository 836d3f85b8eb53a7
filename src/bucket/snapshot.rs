//! Which buckets of a limit are the deepest?

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::limiter::{Limiter, Waiter};
use crate::key::KeyId;
use crate::limit::Rule;
use crate::line::Bucket;

/// The longest text of a key that is kept for people, in bytes.
const LONGEST_LABEL: usize = 256;

/// How a bucket stands, as this instance sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketView {
    /// Its name outside the process.
    pub id: KeyId,
    /// The text of its key, while somebody waits and it is no secret.
    pub key: Option<String>,
    /// How many wait here.
    pub waiting: usize,
    /// How many wait in all instances together, as last heard.
    pub length: usize,
    /// How long until its next slot, or until one more may pass.
    pub next_slot: Duration,
    /// How long the one who waits longest has waited.
    pub oldest_wait: Duration,
    /// For how long yet it is paused, with all others or by itself.
    pub paused: Option<Duration>,
}

impl Limiter {
    /// The `top` buckets in which most wait, then those that owe most; and how many
    /// buckets there are.
    pub fn deepest(&self, top: usize) -> (Vec<BucketView>, usize) {
        let mut deepest: BinaryHeap<Reverse<Depth>> = BinaryHeap::new();
        let mut count = 0_usize;
        self.each_depth(|depth| {
            count = count.saturating_add(1);
            if deepest.len() < top {
                deepest.push(Reverse(depth));
            } else if deepest.peek().is_some_and(|Reverse(least)| *least < depth) {
                deepest.pop();
                deepest.push(Reverse(depth));
            }
        });
        let sorted = deepest.into_sorted_vec().into_iter();
        let views = sorted.filter_map(|Reverse(depth)| self.view(depth.key));
        (views.collect(), count)
    }

    fn each_depth(&self, mut look: impl FnMut(Depth)) {
        match &self.policy().rule {
            Rule::Pace(_) => self.table.each(|key, bucket| look(Depth::of(key, bucket))),
            Rule::Window(window) => {
                let used = |key, used| {
                    look(Depth {
                        waiting: 0,
                        owes: used,
                        key,
                    });
                };
                self.each_used(window, used);
            }
        }
    }

    /// How the bucket of `key` stands; `None` where there is none.
    pub fn view(&self, key: KeyId) -> Option<BucketView> {
        let paused = self.pauses.left(key, self.clock.now());
        let policy = self.policy();
        if policy.rule.window().is_some() {
            return self.knows(key).then(|| BucketView {
                id: key,
                key: None,
                waiting: 0,
                length: 0,
                next_slot: self.remaining(key, 1, None).free_in,
                oldest_wait: Duration::ZERO,
                paused,
            });
        }
        let pace = self.pace(&policy, key);
        self.with_known(key, |bucket, now| {
            let owed = || bucket.next().max(bucket.held());
            BucketView {
                id: key,
                key: bucket.label().map(str::to_owned),
                waiting: bucket.waiting(),
                length: bucket.length(),
                next_slot: bucket.due(&pace).unwrap_or_else(owed).since(now),
                oldest_wait: bucket
                    .oldest()
                    .map_or(Duration::ZERO, |joined| now.since(joined)),
                paused,
            }
        })
    }

    /// Whether this key has a bucket.
    pub fn knows(&self, key: KeyId) -> bool {
        self.with_known(key, |_, _| ()).is_some() || self.has_tally(key)
    }

    /// Says under which text they wait whose key is `key`, where nobody has said so
    /// yet. What may be a credential is not kept.
    pub fn label(&self, key: KeyId, text: impl FnOnce() -> Option<String>) {
        if self.policy().key.is_secret()
            || self.with_known(key, |bucket, _| bucket.lacks_label()) != Some(true)
        {
            return;
        }
        if let Some(text) = text().map(shortened) {
            self.with_known(key, |bucket, _| bucket.set_label(text));
        }
    }
}

/// How deep a bucket is: first by those who wait, then by what it owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Depth {
    waiting: usize,
    owes: u64,
    key: KeyId,
}

impl Depth {
    fn of(key: KeyId, bucket: &Bucket<Waiter>) -> Self {
        Self {
            waiting: bucket.waiting(),
            owes: bucket.next().as_micros(),
            key,
        }
    }
}

/// As much of a key's text as is kept.
fn shortened(text: String) -> Box<str> {
    if text.len() <= LONGEST_LABEL {
        return text.into_boxed_str();
    }
    let end = text.floor_char_boundary(LONGEST_LABEL);
    format!("{}…", text.get(..end).unwrap_or_default()).into_boxed_str()
}
