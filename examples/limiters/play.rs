//! What becomes of each arrival?

use std::time::Duration;

use weir::limit::{Policy, Rule};
use weir::line::{Bucket, Pace, Verdict};
use weir::units::Moment;
use weir::window::{self, Tally, Window};

/// Seconds after a full minute: a crowd before the first boundary, one behind it, a few
/// more, and then a little more than the limit, evenly.
const ARRIVALS: [u64; 19] = [
    50, 52, 54, 56, 58, 62, 64, 66, 68, 70, 90, 94, 98, 120, 130, 140, 150, 160, 170,
];

const MINUTE: Duration = Duration::from_mins(1);

/// A full minute.
const START: Moment = Moment::from_micros(100 * 366 * 86_400 * 1_000_000);

/// A limit, and what becomes of all who come.
pub(crate) struct Story {
    /// As the config calls it.
    pub(crate) algorithm: &'static str,
    /// Its numbers, as they are shown.
    pub(crate) numbers: String,
    /// When each came, in order, and when it went.
    pub(crate) requests: Vec<Request>,
}

/// One request, in time since the start.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) came: Duration,
    /// Where it was not refused.
    pub(crate) went: Option<Duration>,
}

impl Story {
    pub(crate) fn served(&self) -> usize {
        self.departures().len()
    }

    pub(crate) fn refused(&self) -> usize {
        self.requests.len() - self.served()
    }

    #[cfg(test)]
    pub(crate) fn longest_wait(&self) -> Duration {
        let wait = |one: &Request| Some(one.went?.saturating_sub(one.came));
        self.requests
            .iter()
            .filter_map(wait)
            .max()
            .unwrap_or_default()
    }

    /// How many go within the busiest minute, and when those are the first and the last.
    pub(crate) fn busiest_minute(&self) -> (usize, [Duration; 2]) {
        let mut busiest = (0, [Duration::ZERO; 2]);
        let departures = self.departures();
        for (index, first) in departures.iter().enumerate() {
            let within = departures.iter().skip(index);
            let within: Vec<_> = within.take_while(|went| **went < *first + MINUTE).collect();
            if within.len() > busiest.0 {
                let last = within.last().map_or(*first, |last| **last);
                busiest = (within.len(), [*first, last]);
            }
        }
        busiest
    }

    fn departures(&self) -> Vec<Duration> {
        let mut departures: Vec<_> = self.requests.iter().filter_map(|one| one.went).collect();
        departures.sort_unstable();
        departures
    }
}

/// Lets all come to a limit that stood idle.
pub(crate) fn play(policy: &Policy) -> Story {
    let (went, numbers) = match &policy.rule {
        Rule::Pace(pace) if pace.has_line() => (
            line(pace, policy.max_wait),
            format!("rate = \"{}\", burst = {}", policy.rule, pace.burst()),
        ),
        Rule::Pace(pace) => (
            line(pace, policy.max_wait),
            format!(
                "rate = \"{}\", capacity = {}",
                policy.rule,
                pace.burst() + 1
            ),
        ),
        Rule::Window(span) => (
            window(span),
            format!("limit = {}, window = \"1m\"", span.limit()),
        ),
    };
    let requests = ARRIVALS.iter().zip(went);
    Story {
        algorithm: policy.rule.algorithm(),
        numbers,
        requests: requests
            .map(|(came, went)| Request {
                came: Duration::from_secs(*came),
                went: went.map(|went| went.since(START)),
            })
            .collect(),
    }
}

fn arrivals() -> impl Iterator<Item = Moment> {
    ARRIVALS
        .map(|came| START.after(Duration::from_secs(came)))
        .into_iter()
}

fn window(window: &Window) -> Vec<Option<Moment>> {
    let mut tally: Tally<()> = Tally::new(window);
    arrivals()
        .map(|now| match tally.ask(window, now, 1) {
            window::Verdict::Passed(_) => Some(now),
            window::Verdict::Refused(_) => None,
        })
        .collect()
}

fn line(pace: &Pace, max_wait: Option<Duration>) -> Vec<Option<Moment>> {
    let mut bucket: Bucket<usize> = Bucket::new(pace, START);
    let mut went = Vec::new();
    for (request, now) in arrivals().enumerate() {
        drain(&mut bucket, pace, Some(now), &mut went);
        went.push(match bucket.verdict(pace, 1, now, max_wait) {
            Verdict::Refused(_) => None,
            Verdict::Admitted(_) if bucket.goes_at_once(pace, 1, now) => {
                bucket.take(pace, 1, now);
                Some(now)
            }
            Verdict::Admitted(_) => {
                bucket.join(1, now, request);
                None
            }
        });
    }
    drain(&mut bucket, pace, None, &mut went);
    went
}

/// Lets those go whose turn comes by `until`.
fn drain(
    bucket: &mut Bucket<usize>,
    pace: &Pace,
    until: Option<Moment>,
    went: &mut [Option<Moment>],
) {
    while let Some(due) = bucket.due(pace)
        && until.is_none_or(|until| due <= until)
        && let Some(turn) = bucket.promise(pace, due)
    {
        bucket.claim(turn.loan);
        bucket.settle(pace, turn.loan, due);
        if let Some(went) = went.get_mut(turn.waiter) {
            *went = Some(due);
        }
    }
}
