//! What does a config come to, and what is wrong with it?

use std::io::{Result, Write};
use std::path::Path;

use crate::config::{Config, Outlook, RouteConfig, load, warnings};
use crate::limit::{OnFailure, Policy, Rule};
use crate::store::{RedisConfig, Topology};
use crate::units::Human;

/// Checks the config file at `path`: writes what it comes to and what may
/// surprise to `out`, or all that is wrong with it to `err`.
///
/// Answers whether the config is sound; fails where nothing can be written.
pub fn check(path: &Path, out: &mut impl Write, err: &mut impl Write) -> Result<bool> {
    let config = match load(path) {
        Ok(config) => config,
        Err(faults) => {
            writeln!(err, "{faults}")?;
            return Ok(false);
        }
    };
    writeln!(out, "{}: nothing is wrong", path.display())?;
    table(out, "store", config.store.redis.iter().map(store).collect())?;
    let limits = config.limits.iter().flat_map(with_overrides);
    table(out, "limits", limits.collect())?;
    let routes = config.routes.iter().map(|one| route(&config, one));
    table(out, "routes", routes.collect())?;
    let warnings = warnings(&config);
    if !warnings.is_empty() {
        writeln!(out)?;
    }
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(true)
}

fn table(out: &mut impl Write, title: &str, rows: Vec<[String; 2]>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let names = rows.iter().map(|[name, _]| name.chars().count());
    let width = names.max().unwrap_or(0);
    writeln!(out, "\n{title}")?;
    for [name, text] in rows {
        writeln!(out, "  {name:width$}  {text}")?;
    }
    Ok(())
}

fn store(redis: &RedisConfig) -> [String; 2] {
    let kind = match &redis.topology {
        Topology::Single => "redis".to_owned(),
        Topology::Cluster => "redis cluster".to_owned(),
        Topology::Sentinel(master) => format!("redis {master} by sentinels"),
    };
    let without = match redis.on_failure {
        OnFailure::Local => "each instance goes on with its part of the rate",
        OnFailure::Open => "requests pass unshaped",
        OnFailure::Closed => "requests get 503",
    };
    let text = format!(
        "{}, {} for an answer, without it {without}",
        redis.urls.shown(),
        Human(redis.timeout),
    );
    [kind, text]
}

/// A limit, and how it is for those who have a rule of their own.
fn with_overrides(policy: &Policy) -> Vec<[String; 2]> {
    let hidden = policy.overrides.by().unwrap_or(&policy.key).is_secret();
    let others = policy.overrides.iter().enumerate();
    let others = others.map(|(nth, (name, rule))| {
        let [limit, text] = limit(&policy.with_rule(*rule));
        let nth = nth.saturating_add(1).to_string();
        let name = if hidden { &*nth } else { name };
        [format!("{limit} of {name}"), text]
    });
    std::iter::once(limit(policy)).chain(others).collect()
}

fn limit(policy: &Policy) -> [String; 2] {
    let outlook = Outlook::of(policy);
    let pass = match outlook.at_once {
        0 => "none passes without waiting".to_owned(),
        1 => "1 passes".to_owned(),
        many => format!("{many} pass"),
    };
    let wait = match outlook.places {
        0 => "nobody waits".to_owned(),
        1 => format!("1 more waits, at most {}", Human(outlook.worst_wait)),
        many => format!("{many} more wait, the last {}", Human(outlook.worst_wait)),
    };
    let dry_run = if policy.dry_run {
        " (dry run: none is)"
    } else {
        ""
    };
    let rule = match &policy.rule {
        Rule::Pace(pace) => format!("{}, burst {}", pace.rate(), outlook.burst),
        Rule::Window(window) => format!("{window}, {}", policy.rule.algorithm()),
    };
    let text = format!(
        "{rule}{}: of many at once {pass}, {wait}, the rest are refused with {}{dry_run}",
        policy.cost,
        policy.status.as_u16(),
    );
    [policy.name.to_string(), text]
}

fn route(config: &Config, route: &RouteConfig) -> [String; 2] {
    let pattern = &route.pattern;
    let mut text = String::new();
    for method in &pattern.methods {
        text.push_str(method.as_str());
        text.push(' ');
    }
    text.push_str(pattern.host.as_deref().unwrap_or_default());
    text.push_str(&pattern.path);
    for limit in &route.limits {
        if let Some(policy) = config.limits.get(*limit) {
            text.push_str(" > ");
            text.push_str(&policy.name);
        }
    }
    if let Some(target) = config.upstreams.get(route.upstream) {
        text.push_str(" > upstream ");
        text.push_str(&target.name);
    }
    [route.name.to_string(), text]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> (bool, String, String) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("weir.toml");
        std::fs::write(&path, text).expect("written");
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let sound = check(&path, &mut out, &mut err).expect("a buffer takes all");
        let text = |bytes| {
            let text = String::from_utf8(bytes).expect("text");
            text.replace(&*path.to_string_lossy(), "weir.toml")
        };
        (sound, text(out), text(err))
    }

    const SOUND: &str = r#"
[limits.line]
key = "{ip}"
rate = "10r/s"
burst = 21
max_wait = "2s"
[limits.tokens]
algorithm = "token_bucket"
key = "all"
rate = "5r/m"
capacity = 3
dry_run = true
cost = 2
[limits.one]
key = "all"
rate = "50r/s"
burst = 1
status = 503
[limits.daily]
algorithm = "sliding_window_counter"
key = "{header.x-api-key}"
limit = 1000
window = "1d"
[limits.daily.overrides]
secret-key = { limit = 5000 }
[limits.plans]
key = "{header.x-user}"
rate = "1r/s"
overrides_by = "{header.x-plan}"
overrides = { gold = { burst = 4 } }
[upstreams.api]
url = "http://127.0.0.1:8000"
[[routes]]
name = "pay"
host = "pay.example.com"
path = "/v1/"
methods = ["POST", "PUT"]
upstream = "api"
limits = ["daily", "plans", "line", "tokens", "one"]
[[routes]]
path = "/free"
upstream = "api"
"#;

    #[test]
    fn a_sound_config_is_summed_up() {
        let (sound, out, err) = checked(SOUND);
        assert!(sound && err.is_empty(), "{err}");
        assert_eq!(
            out,
            "\
weir.toml: nothing is wrong

limits
  daily          1000 per 1d, sliding_window_counter: of many at once 1000 pass, nobody waits, the rest are refused with 429
  daily of 1     5000 per 1d, sliding_window_counter: of many at once 5000 pass, nobody waits, the rest are refused with 429
  line           10r/s, burst 20: of many at once 1 passes, 20 more wait, the last 2s, the rest are refused with 429
  one            50r/s, burst 1: of many at once 1 passes, 1 more waits, at most 20ms, the rest are refused with 503
  plans          1r/s, burst 0: of many at once 1 passes, nobody waits, the rest are refused with 429
  plans of gold  1r/s, burst 4: of many at once 1 passes, 4 more wait, the last 4s, the rest are refused with 429
  tokens         5r/m, burst 2, cost 2: of many at once 1 passes, nobody waits, the rest are refused with 429 (dry run: none is)

routes
  pay    POST PUT pay.example.com/v1/ > daily > plans > line > tokens > one > upstream api
  /free  /free > upstream api

warning: limits.line: max_wait of 2s is reached with 20 waiting: 1 place stays empty
warning: limits.plans: 1r/s without burst refuses whatever comes closer together than 1s: of 10 requests at once 1 passes; set burst (and delay or nodelay), or a larger capacity
"
        );
    }

    #[test]
    fn a_config_with_faults_shows_them_alone() {
        let (sound, out, err) = checked("[server]\nthreads = 0\n");
        assert!(!sound && out.is_empty(), "{out}");
        assert_eq!(
            err,
            "\
weir.toml:2: server.threads: `0` must be from 1 to 1024
weir.toml: routes: there are none: write [[routes]] with a path and an upstream
"
        );
    }
}
