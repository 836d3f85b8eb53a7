//! What do a limit's numbers come to for those who ask it?

use std::time::Duration;

use crate::limit::{Policy, Rule};
use crate::window::Window;

/// What becomes of many requests with one key, of the usual cost, that come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// So many pass without waiting.
    pub at_once: u32,
    /// So many slots beyond the first are to be had at once or by waiting.
    pub burst: u32,
    /// So many more wait; all others are refused.
    pub places: u32,
    /// Slots that the burst has and `max_wait` keeps out of reach.
    pub unreachable: u32,
    /// How long the last of those who wait does so.
    pub worst_wait: Duration,
    /// The time between two that leave; of a window, its span.
    pub interval: Duration,
}

impl Outlook {
    /// What becomes of those who ask `policy`.
    pub fn of(policy: &Policy) -> Self {
        let pace = match &policy.rule {
            Rule::Pace(pace) => pace,
            Rule::Window(window) => return Self::of_window(window, policy.cost.usual()),
        };
        let cost = policy.cost.usual();
        let interval = pace.rate().interval();
        let span = |ticks: u128| {
            let micros = ticks.div_ceil(u128::from(interval.ticks_per_micro()).max(1));
            Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
        };
        let ticks = interval.ticks();
        let all = pace.burst().saturating_sub(pace.delay());
        let within = policy.max_wait.map_or(all, |most| {
            let most = most.as_micros() * u128::from(interval.ticks_per_micro());
            let slots = most.checked_div(ticks).unwrap_or(u128::MAX);
            u32::try_from(slots).unwrap_or(u32::MAX)
        });
        let of_cost = |slots: u32| slots.checked_div(cost).unwrap_or(slots);
        let free = pace.delay().saturating_add(1);
        let waited_for = all.min(within);
        let at_once = of_cost(free);
        let admitted = of_cost(free.saturating_add(waited_for));
        let last = admitted.saturating_mul(cost).saturating_sub(free);
        Self {
            at_once,
            burst: pace.delay().saturating_add(waited_for),
            places: admitted - at_once,
            unreachable: all - waited_for,
            worst_wait: span(ticks * u128::from(last)),
            interval: span(ticks),
        }
    }

    fn of_window(window: &Window, cost: u32) -> Self {
        Self {
            at_once: window.limit().checked_div(cost).unwrap_or(0),
            burst: window.limit().saturating_sub(1),
            places: 0,
            unreachable: 0,
            worst_wait: Duration::ZERO,
            interval: window.span(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Cost;
    use crate::line::Pace;

    fn outlook(rate: &str, burst: u32, delay: u32, max_wait: Option<u64>) -> (u32, u32, u32, u128) {
        costing(1, rate, burst, delay, max_wait)
    }

    fn costing(
        cost: u32,
        rate: &str,
        burst: u32,
        delay: u32,
        max_wait: Option<u64>,
    ) -> (u32, u32, u32, u128) {
        let pace = Pace::new(rate.parse().expect("a rate"), burst, delay).expect("a pace");
        let key = "{ip}".parse().expect("a key");
        let outlook = Outlook::of(&Policy {
            cost: Cost::each(cost),
            max_wait: max_wait.map(Duration::from_millis),
            ..Policy::new("x", key, Rule::Pace(pace))
        });
        let Outlook {
            at_once,
            places,
            unreachable,
            worst_wait,
            ..
        } = outlook;
        (at_once, places, unreachable, worst_wait.as_millis())
    }

    #[test]
    fn those_who_pass_wait_and_are_refused_are_foreseen() {
        assert_eq!(outlook("5r/m", 5, 0, None), (1, 5, 0, 60_000));
        assert_eq!(outlook("10r/s", 20, 5, None), (6, 15, 0, 1_500));
        assert_eq!(outlook("10r/s", 20, 20, None), (21, 0, 0, 0));
        assert_eq!(outlook("10r/s", 20, 0, Some(500)), (1, 5, 15, 500));
        assert_eq!(outlook("10r/s", 20, 0, Some(499)), (1, 4, 16, 400));
        assert_eq!(outlook("3r/s", 3, 0, Some(1_000)), (1, 3, 0, 1_000));
        assert_eq!(outlook("1r/s", 5, 0, Some(10)), (1, 0, 5, 0));
    }

    #[test]
    fn of_those_who_cost_more_there_are_fewer() {
        assert_eq!(costing(3, "10r/s", 19, 19, None), (6, 0, 0, 0));
        assert_eq!(costing(5, "20r/s", 9, 0, None), (0, 2, 0, 450));
        assert_eq!(costing(4, "10r/s", 20, 5, None), (1, 4, 0, 1_400));
        assert_eq!(costing(4, "10r/s", 20, 0, Some(500)), (0, 1, 15, 300));
    }
}
