//! What does a client learn of its limits? (draft-ietf-httpapi-ratelimit-headers-11)

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::bucket::Claim;
use crate::limit::Rule;
use crate::units::{Remaining, whole_seconds};

static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// The `RateLimit` fields of a request's limits, as they stand now.
#[derive(Debug, Default)]
pub struct LimitFields {
    policies: Text,
    limits: Text,
    tightest: Option<Tightest>,
}

/// A field's value as it is put together: every answer has two, so it is done
/// without the machinery of `format!`.
type Text = Vec<u8>;

/// Room for what one limit has to say, as a rule.
const ITEM: usize = 48;

#[derive(Clone, Copy, Debug)]
struct Tightest {
    quota: u64,
    remaining: u64,
    reset: u64,
}

impl LimitFields {
    /// The fields of all limits that a request falls under, dry runs apart.
    pub fn of(claims: &[Claim], max_wait: Option<Duration>) -> Self {
        let mut fields = Self::default();
        for claim in claims {
            let policy = claim.limiter.policy();
            if !policy.dry_run {
                let (limiter, key) = (&claim.limiter, claim.key);
                let left = limiter.remaining_by(&policy, key, claim.cost, max_wait);
                fields.add(&policy.name, policy.rule_of(key), left);
            }
        }
        fields
    }

    fn add(&mut self, name: &str, rule: &Rule, left: Remaining) {
        let (quota, window) = rule.quota();
        let reset = if left.admits == 0 {
            whole_seconds(left.free_in)
        } else {
            ceil_seconds(left.idle_in)
        };
        add_item(&mut self.policies, name, [(";q=", quota), (";w=", window)]);
        add_item(
            &mut self.limits,
            name,
            [(";r=", left.admits), (";t=", reset)],
        );
        let this = Tightest {
            quota,
            remaining: left.admits,
            reset,
        };
        if self
            .tightest
            .is_none_or(|tightest| this.remaining < tightest.remaining)
        {
            self.tightest = Some(this);
        }
    }

    /// Adds the fields to an answer; those that the upstream set stay.
    pub fn write(self, headers: &mut HeaderMap, legacy: bool) {
        if self.limits.is_empty() {
            return;
        }
        for (name, value) in [
            (&RATELIMIT_POLICY, &self.policies),
            (&RATELIMIT, &self.limits),
        ] {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                headers.append(name, value);
            }
        }
        if let Some(tightest) = self.tightest.filter(|_| legacy) {
            tightest.write(headers);
        }
    }
}

impl Tightest {
    /// The upstream's own fields stay where they leave less.
    fn write(self, headers: &mut HeaderMap) {
        let [limit, remaining, reset] = &LEGACY;
        let theirs = headers
            .get(remaining)
            .and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
        if theirs.is_some_and(|theirs| theirs <= self.remaining) {
            return;
        }
        for (name, number) in [
            (limit, self.quota),
            (remaining, self.remaining),
            (reset, self.reset),
        ] {
            headers.insert(name, HeaderValue::from(number));
        }
    }
}

/// Adds `"name";q=1;w=1` to a list. A limit's name is of letters that need no escape.
fn add_item(list: &mut Text, name: &str, parameters: [(&str, u64); 2]) {
    list.reserve(ITEM);
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    list.push(b'"');
    list.extend_from_slice(name.as_bytes());
    list.push(b'"');
    for (parameter, number) in parameters {
        list.extend_from_slice(parameter.as_bytes());
        list.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

fn ceil_seconds(span: Duration) -> u64 {
    if span.is_zero() {
        0
    } else {
        whole_seconds(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Pace;
    use crate::window::{Kind, Window};

    fn fields(rate: &str, burst: u32, left: Remaining) -> (String, String) {
        let pace = Pace::new(rate.parse().expect(rate), burst, 0).expect("a pace");
        shown(&Rule::Pace(pace), left)
    }

    fn shown(rule: &Rule, left: Remaining) -> (String, String) {
        let mut fields = LimitFields::default();
        fields.add("per_client", rule, left);
        let text = |text: Text| String::from_utf8(text).expect("text");
        (text(fields.policies), text(fields.limits))
    }

    fn left(admits: u64, free_millis: u64, idle_millis: u64) -> Remaining {
        let millis = Duration::from_millis;
        Remaining {
            admits,
            free_in: millis(free_millis),
            idle_in: millis(idle_millis),
        }
    }

    #[test]
    fn quotas_come_from_rate_and_burst() {
        for (rate, burst, policy) in [
            ("10r/s", 20, "\"per_client\";q=20;w=2"),
            ("10r/s", 0, "\"per_client\";q=10;w=1"),
            ("5r/m", 5, "\"per_client\";q=5;w=60"),
            ("1r/m", 0, "\"per_client\";q=1;w=60"),
            ("3r/s", 10, "\"per_client\";q=12;w=4"),
            ("100000r/s", 0, "\"per_client\";q=100000;w=1"),
        ] {
            assert_eq!(
                fields(rate, burst, left(3, 0, 900)).0,
                policy,
                "{rate} burst {burst}"
            );
        }
    }

    #[test]
    fn a_window_says_its_own_limit_and_span() {
        for (limit, millis, policy) in [
            (1_000, 86_400_000, "\"per_client\";q=1000;w=86400"),
            (5, 1_500, "\"per_client\";q=5;w=2"),
            (5, 100, "\"per_client\";q=5;w=1"),
        ] {
            let span = Duration::from_millis(millis);
            let window = Window::new(Kind::Log, limit, span, Duration::ZERO);
            assert_eq!(shown(&Rule::Window(window), left(3, 0, 900)).0, policy);
        }
    }

    #[test]
    fn what_is_left_counts_down_and_is_never_zero_seconds_while_nothing_is() {
        assert_eq!(
            fields("10r/s", 20, left(3, 0, 1_800)).1,
            "\"per_client\";r=3;t=2"
        );
        assert_eq!(
            fields("10r/s", 20, left(21, 0, 0)).1,
            "\"per_client\";r=21;t=0"
        );
        assert_eq!(
            fields("10r/s", 20, left(0, 1, 2_100)).1,
            "\"per_client\";r=0;t=1"
        );
        assert_eq!(
            fields("10r/s", 20, left(0, 1_001, 2_100)).1,
            "\"per_client\";r=0;t=2"
        );
    }

    #[test]
    fn an_upstreams_own_fields_are_never_loosened() {
        let ours = Tightest {
            quota: 10,
            remaining: 5,
            reset: 1,
        };
        for (theirs, expected) in [("3", "3"), ("5", "5"), ("9", "5"), ("x", "5")] {
            let mut headers = HeaderMap::new();
            headers.insert("ratelimit-remaining", HeaderValue::from_static(theirs));
            ours.write(&mut headers);
            assert_eq!(
                headers["ratelimit-remaining"], expected,
                "upstream says {theirs}"
            );
        }
        let mut headers = HeaderMap::new();
        headers.insert("ratelimit", HeaderValue::from_static("\"up\";r=1;t=9"));
        let mine = LimitFields {
            policies: b"\"a\";q=1;w=1".to_vec(),
            limits: b"\"a\";r=1;t=1".to_vec(),
            tightest: None,
        };
        mine.write(&mut headers, false);
        let all: Vec<_> = headers.get_all("ratelimit").iter().collect();
        assert_eq!(all, ["\"up\";r=1;t=9", "\"a\";r=1;t=1"]);
    }
}
