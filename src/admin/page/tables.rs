//! What is so now, in tables?

use std::fmt;

use super::Escaped;
use crate::bucket::Limiter;
use crate::forward::TargetKind;
use crate::metrics::Readings;
use crate::proxy::{App, Upstream};
use crate::units::Human;

/// The deepest keys of each limit that are shown.
const DEEPEST: usize = 5;

/// All tables.
pub(super) struct Tables<'a> {
    pub(super) app: &'a App,
    /// Whether whoever looks may see keys.
    pub(super) keys: bool,
}

impl fmt::Display for Tables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let app = self.app;
        let readings = Readings::of(&app.metrics);
        let waiting = app.crowd.waiting();
        writeln!(
            f,
            "<p>{waiting} waiting in this instance. {}</p>",
            Store(app)
        )?;
        head(
            f,
            "Limits",
            "limit,state,waiting,longest line,oldest wait,rate,burst,longest wait,keys,admitted,refused",
        )?;
        for limiter in &app.limiters {
            limit(f, limiter, &readings)?;
        }
        foot(f)?;
        if self.keys {
            head(
                f,
                "Deepest keys",
                "key,limit,waiting,in line,next slot,oldest wait",
            )?;
            for limiter in &app.limiters {
                keys(f, limiter)?;
            }
            foot(f)?;
        }
        head(
            f,
            "Upstreams",
            "upstream,health,in flight,at most,answers,mean latency,errors,target",
        )?;
        for one in &app.upstreams {
            upstream(f, one, &readings)?;
        }
        foot(f)
    }
}

/// Where the lines are.
struct Store<'a>(&'a App);

impl fmt::Display for Store<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(store) = &self.0.store else {
            return f.write_str("Lines are in its memory.");
        };
        let instances = match store.instances() {
            1 => "this instance alone".to_owned(),
            many => format!("{many} instances"),
        };
        if store.is_well() {
            write!(f, "Lines are in Redis, shared by {instances}.")
        } else {
            write!(
                f,
                "Redis is away: limits go on without it, as last shared by {instances}."
            )
        }
    }
}

fn head(f: &mut fmt::Formatter<'_>, title: &str, columns: &str) -> fmt::Result {
    write!(
        f,
        "<h2>{title}</h2>\n<div class=\"wide\"><table>\n<thead><tr>"
    )?;
    for column in columns.split(',') {
        write!(f, "<th scope=\"col\">{column}</th>")?;
    }
    writeln!(f, "</tr></thead>\n<tbody>")
}

fn foot(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "</tbody></table></div>")
}

fn row(f: &mut fmt::Formatter<'_>, cells: &[&dyn fmt::Display]) -> fmt::Result {
    write!(f, "<tr>")?;
    for cell in cells {
        write!(f, "<td>{}</td>", Escaped(cell))?;
    }
    writeln!(f, "</tr>")
}

fn limit(f: &mut fmt::Formatter<'_>, limiter: &Limiter, readings: &Readings) -> fmt::Result {
    let policy = limiter.policy();
    let census = limiter.observe();
    let longest = policy.rule.longest_wait();
    let state = match (limiter.paused_for(None), policy.dry_run) {
        (Some(left), _) => format!("paused, {} left", Human(left)),
        (None, true) => "dry run".to_owned(),
        (None, false) => "open".to_owned(),
    };
    row(
        f,
        &[
            &policy.name,
            &state,
            &census.waiting,
            &census.longest,
            &Human(census.oldest),
            &policy.rule,
            &policy.rule.burst(),
            &Human(policy.max_wait.map_or(longest, |most| most.min(longest))),
            &census.buckets,
            &readings.admitted(&policy.name),
            &readings.refused(&policy.name).values().sum::<u64>(),
        ],
    )
}

fn keys(f: &mut fmt::Formatter<'_>, limiter: &Limiter) -> fmt::Result {
    let (deepest, _total) = limiter.deepest(DEEPEST);
    for bucket in deepest.into_iter().filter(|bucket| bucket.length > 0) {
        let id = bucket.id.to_string();
        row(
            f,
            &[
                &bucket.key.as_deref().unwrap_or(&id),
                &limiter.policy().name,
                &bucket.waiting,
                &bucket.length,
                &Human(bucket.next_slot),
                &Human(bucket.oldest_wait),
            ],
        )?;
    }
    Ok(())
}

fn upstream(f: &mut fmt::Formatter<'_>, upstream: &Upstream, readings: &Readings) -> fmt::Result {
    let name = &upstream.target.name;
    let (target, probed) = match &upstream.target.kind {
        TargetKind::Server(server) => (
            format!("{}://{}", server.scheme, server.authority),
            server.health.is_some(),
        ),
        TargetKind::Respond(respond) => (format!("built in, {}", respond.status.as_u16()), false),
    };
    let most = upstream.target.max_in_flight;
    let answers = readings.upstream_answers(name).values().sum::<u64>();
    let mean = mean(readings.upstream_seconds(name), answers);
    row(
        f,
        &[
            name,
            &match (probed, upstream.gate.is_well()) {
                (false, _) => "not probed",
                (true, true) => "well",
                (true, false) => "down",
            },
            &upstream.gate.in_flight(),
            &most.map_or("any number".to_owned(), |most| most.to_string()),
            &answers,
            &mean,
            &readings.upstream_errors(name).values().sum::<u64>(),
            &target,
        ],
    )
}

/// How long answers took on average, since the instance began.
fn mean(seconds: f64, answers: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let mean = seconds / answers as f64;
    if answers == 0 {
        "–".to_owned()
    } else {
        format!("{:.1} ms", mean * 1e3)
    }
}
