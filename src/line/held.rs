//! Until when may nobody of a bucket go, and what if nobody shall wait any more?

use super::bucket::Bucket;
use crate::units::Moment;

impl<T> Bucket<T> {
    /// Until when nobody may go; in the past where anyone may.
    pub fn held(&self) -> Moment {
        let line = self.line.as_ref();
        line.map_or(Moment::default(), |line| line.held())
    }

    /// Lets nobody go before `until`; an earlier hold is kept where it is longer.
    pub fn hold(&mut self, until: Moment) {
        let line = self.open();
        line.hold = line.hold.max(until);
        if let Some(mirror) = line.mirror.as_mut().filter(|mirror| mirror.attached) {
            mirror.hold(until);
        }
    }

    /// It is paused until then, and was not before; not at all where that is past.
    pub fn pause(&mut self, until: Moment, now: Moment) {
        if until > now {
            self.open().paused = until;
        } else if let Some(line) = &mut self.line {
            // Slots of a pause that ends early are nobody's, as those of one that ran out.
            line.paused = line.paused.min(now);
        }
    }

    /// Whether somebody waits and nobody has said under which key.
    pub fn lacks_label(&self) -> bool {
        let unnamed = self.line.as_ref().is_some_and(|line| line.label.is_none());
        unnamed && self.waiting() > 0
    }

    /// The text of its key, while somebody waits.
    pub fn label(&self) -> Option<&str> {
        self.line.as_ref()?.label.as_deref()
    }

    /// Says under which key they wait.
    pub fn set_label(&mut self, text: Box<str>) {
        if self.lacks_label() {
            self.open().label = Some(text);
        }
    }

    /// Empties the line: those who waited, to be told.
    pub fn purge(&mut self, now: Moment) -> Vec<T> {
        let Some(line) = &mut self.line else {
            return Vec::new();
        };
        let told = line.ready.drain().chain(line.blocked.drain()).collect();
        if let Some(mirror) = &mut line.mirror {
            mirror.forgo(now);
        }
        self.tidy(now);
        told
    }
}
