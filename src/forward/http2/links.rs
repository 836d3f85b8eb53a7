//! Which HTTP/2 connection takes the next request?

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::link::{Link, Share};

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// A runtime's HTTP/2 connections to one upstream, the oldest first. That one is
/// filled before the next is used, so that those that are not needed grow idle.
#[derive(Debug, Default)]
pub(in crate::forward) struct Links(Mutex<Vec<Arc<Link>>>);

impl Links {
    /// A share of an open connection with room, but for one that refused.
    pub(in crate::forward) fn take(&self, but: Option<&Arc<Link>>) -> Option<Share> {
        let mut links = self.0.lock();
        if links.is_empty() {
            return None;
        }
        links.retain(|link| link.is_open());
        let may = |link: &&Arc<Link>| !but.is_some_and(|but| Arc::ptr_eq(but, link));
        links.iter().filter(may).find_map(Link::share)
    }

    /// One more connection, and the first share of it.
    pub(in crate::forward) fn add(&self, link: Arc<Link>) -> Option<Share> {
        let mut share = link.share()?;
        share.is_fresh = true;
        self.0.lock().push(link);
        Some(share)
    }

    /// Closes connections that nobody needed for long, and gives those up whose
    /// upstream is silent.
    pub(in crate::forward) fn sweep(&self) {
        self.0.lock().retain(|link| {
            link.listen();
            link.is_open() && !link.is_unused_for(IDLE)
        });
    }
}
