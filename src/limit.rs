//! What does the config say of a limit?

mod cost;
mod exempt;
mod overrides;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::key::{Facts, KeyHasher, KeyId, KeyTemplate};
use crate::line::Pace;
use crate::window::{Kind, Window};

pub use cost::{BadCost, Cost};
pub use exempt::Exempt;
pub use overrides::Overrides;

/// A named policy: what is counted, how fast it may go, what a refusal says.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name, as in `[limits.NAME]`.
    pub name: Arc<str>,
    /// Under which key requests are counted.
    pub key: KeyTemplate,
    /// How many leading bits of an IPv6 address count.
    pub ipv6_prefix: u8,
    /// Whom it does not count.
    pub exempt: Exempt,
    /// What happens to a request that has no such key.
    pub on_missing_key: OnMissingKey,
    /// How many may go, and when.
    pub rule: Rule,
    /// For whom that is otherwise.
    pub overrides: Overrides,
    /// How much of that a request needs.
    pub cost: Cost,
    /// The longest wait that a request is admitted to.
    pub max_wait: Option<Duration>,
    /// The status of a refusal.
    pub status: StatusCode,
    /// Whether it only counts what it would refuse.
    pub dry_run: bool,
    /// For how long it counts by itself between two words with the store; not at all
    /// where each request is asked for.
    pub sync: Option<Duration>,
    /// What happens while the store is away, where it isn't the store's own choice.
    pub on_failure: Option<OnFailure>,
}

impl Policy {
    /// A limit with the config's defaults for all that isn't said here.
    pub fn new(name: &str, key: KeyTemplate, rule: Rule) -> Self {
        Self {
            name: Arc::from(name),
            key,
            ipv6_prefix: 64,
            exempt: Exempt::default(),
            on_missing_key: OnMissingKey::default(),
            rule,
            overrides: Overrides::default(),
            cost: Cost::default(),
            max_wait: None,
            status: StatusCode::TOO_MANY_REQUESTS,
            dry_run: false,
            sync: None,
            on_failure: None,
        }
    }

    /// The same, knowing the keys that it names by their ids.
    #[must_use]
    pub fn resolved(self, hasher: &KeyHasher) -> Self {
        let (key, prefix) = (&self.key, self.ipv6_prefix);
        Self {
            exempt: self.exempt.resolved(key, prefix, hasher),
            overrides: self.overrides.resolved(key, prefix, hasher),
            ..self
        }
    }

    /// How many may go under a key, and when.
    pub fn rule_of(&self, key: KeyId) -> &Rule {
        self.overrides.of(key).unwrap_or(&self.rule)
    }

    /// The limit as it is for those of an override.
    #[must_use]
    pub fn with_rule(&self, rule: Rule) -> Self {
        Self {
            rule,
            overrides: Overrides::default(),
            ..self.clone()
        }
    }

    /// A key's id as it is for this request.
    pub fn tiered(&self, key: KeyId, facts: &Facts<'_>, hasher: &KeyHasher) -> KeyId {
        self.overrides.tiered(key, facts, self.ipv6_prefix, hasher)
    }

    /// The ids of the keys that people may mean by `text`, the most likely first.
    pub fn ids(&self, text: &str, hasher: &KeyHasher) -> Vec<KeyId> {
        let ids = self.key.ids(text, self.ipv6_prefix, hasher).into_iter();
        ids.flat_map(|id| self.overrides.ids(id)).collect()
    }
}

/// How many may go, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Slots follow each other, and so many may wait for them or go at once.
    Pace(Pace),
    /// So many pass in a span of time, and nobody waits.
    Window(Window),
}

impl Rule {
    /// Whether requests may wait; where not, they pass or are refused at once.
    pub const fn has_line(&self) -> bool {
        match self {
            Self::Pace(pace) => pace.has_line(),
            Self::Window(_) => false,
        }
    }

    /// Whether both are kept in the same way, so that one may take the other's place.
    pub const fn is_like(&self, other: &Self) -> bool {
        matches!(self, Self::Window(_)) == matches!(other, Self::Window(_))
    }

    /// The pace of its buckets. A window has none; it keeps nobody waiting.
    pub fn pace(&self) -> Pace {
        match self {
            Self::Pace(pace) => *pace,
            Self::Window(_) => Pace::open(),
        }
    }

    /// Its window, where it counts in one.
    pub const fn window(&self) -> Option<&Window> {
        match self {
            Self::Pace(_) => None,
            Self::Window(window) => Some(window),
        }
    }

    /// What the config calls it. A leaky bucket in which nobody waits is the same as a
    /// token bucket.
    pub const fn algorithm(&self) -> &'static str {
        match self {
            Self::Pace(pace) if pace.has_line() => "leaky_bucket",
            Self::Pace(_) => "token_bucket",
            Self::Window(window) => match window.kind() {
                Kind::Fixed => "fixed_window",
                Kind::Log => "sliding_window_log",
                Kind::Counter => "sliding_window_counter",
            },
        }
    }

    /// Requests a second over a long time.
    pub fn per_second(&self) -> f64 {
        match self {
            Self::Pace(pace) => pace.rate().per_second(),
            Self::Window(window) => window.per_second(),
        }
    }

    /// How many may wait, or go at once, beyond the first.
    pub fn burst(&self) -> u32 {
        match self {
            Self::Pace(pace) => pace.burst(),
            Self::Window(window) => window.limit().saturating_sub(1),
        }
    }

    /// How many of those go at once.
    pub fn delay(&self) -> u32 {
        match self {
            Self::Pace(pace) => pace.delay(),
            Self::Window(_) => self.burst(),
        }
    }

    /// The longest wait of a request that is admitted.
    pub fn longest_wait(&self) -> Duration {
        match self {
            Self::Pace(pace) => pace.longest_wait(),
            Self::Window(_) => Duration::ZERO,
        }
    }

    /// The most that one request can ever have at once.
    pub fn most(&self) -> u32 {
        self.burst().saturating_add(1)
    }

    /// How many requests in how many seconds it comes to.
    pub fn quota(&self) -> (u64, u64) {
        match self {
            Self::Pace(pace) => (pace.rate().times(pace.window()), pace.window()),
            Self::Window(window) => (u64::from(window.limit()), window.seconds()),
        }
    }
}

/// As it is shown: `10r/s`, or `5 per 1m`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pace(pace) => pace.rate().fmt(f),
            Self::Window(window) => window.fmt(f),
        }
    }
}

/// What happens to a limit while the store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Each instance goes on by itself with its part of the rate.
    #[default]
    Local,
    /// Requests pass, unshaped.
    Open,
    /// Requests are answered with 503.
    Closed,
}

/// What happens to a request whose key is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissingKey {
    /// It is refused with 400.
    #[default]
    Reject,
    /// The limit does not count it.
    Skip,
}
