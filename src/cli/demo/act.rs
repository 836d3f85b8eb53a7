//! What is played, in which order?

use std::net::SocketAddr;
use std::time::Duration;

use super::frame::Lane;
use crate::cli::row::Ink;

/// The limit that is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Requests a second.
    pub(super) rate: u32,
    /// How many may wait, or go at once, beyond the first.
    pub(super) burst: u32,
}

impl Limit {
    /// The time between two slots.
    pub(super) fn interval(self) -> Duration {
        Duration::from_secs(1)
            .checked_div(self.rate)
            .unwrap_or(Duration::MAX)
    }
}

/// What an act holds weir to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// Nothing: weir isn't asked.
    Nothing,
    /// The burst waits, and leaves evenly.
    Even,
    /// The burst passes at once; what it used comes back at the rate.
    AtOnce,
}

impl Promise {
    /// How the measured numbers are marked.
    pub(super) fn mark(self, kept: bool) -> (Ink, char) {
        match (self, kept) {
            (Self::Nothing, _) => (Ink::Plain, ' '),
            (Self::Even | Self::AtOnce, true) => (Ink::Passed, '✓'),
            (Self::Even | Self::AtOnce, false) => (Ink::Refused, '✗'),
        }
    }
}

/// One act: bursts, each after its delay, and what is looked at meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) bursts: Vec<Duration>,
    pub(super) lanes: &'static [Lane],
    pub(super) lasts: Duration,
    pub(super) promise: Promise,
}

/// Where nothing is limited: there and through weir.
pub(super) fn unlimited(backend: SocketAddr, weir: SocketAddr) -> [String; 2] {
    [format!("http://{backend}/"), format!("http://{weir}/")]
}

/// The three acts: without weir, with it, and with nodelay.
pub(super) fn acts(limit: Limit, crowd: usize, backend: SocketAddr, weir: SocketAddr) -> [Act; 3] {
    let Limit { rate, burst } = limit;
    let interval = limit.interval();
    // Half an interval later than a round number: nobody comes as a slot comes free.
    let again = interval * (burst / 2) + interval / 2;
    [
        Act {
            title: format!("{crowd} requests at once, straight to the backend"),
            url: format!("http://{backend}/"),
            bursts: vec![Duration::ZERO],
            lanes: &[Lane::Sent, Lane::Backend],
            lasts: interval * 5,
            promise: Promise::Nothing,
        },
        Act {
            title: format!("The same through weir: rate = \"{rate}r/s\", burst = {burst}"),
            url: format!("http://{weir}/shaped"),
            bursts: vec![Duration::ZERO],
            lanes: &[
                Lane::Sent,
                Lane::Refused,
                Lane::Waiting,
                Lane::Backend,
                Lane::Time,
            ],
            lasts: interval * burst,
            promise: Promise::Even,
        },
        Act {
            title: "With nodelay = true, and a second burst".to_owned(),
            url: format!("http://{weir}/nodelay"),
            bursts: vec![Duration::ZERO, again],
            lanes: &[Lane::Sent, Lane::Refused, Lane::Backend, Lane::Time],
            lasts: interval * (burst / 2 + 5),
            promise: Promise::AtOnce,
        },
    ]
}
