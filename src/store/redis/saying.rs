//! In which words is a script called?

use std::time::Duration;

use redis::{Script, ScriptInvocation};

use super::names::BucketNames;
use crate::line::{Call, Pace, Reach, Run, Unused};

/// What both scripts are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saying<'a> {
    /// What time it is; 0 for the store's own clock.
    pub(super) now: u64,
    pub(super) pace: &'a Pace,
    /// The next free slot that the caller came to by itself, on the store's clock.
    pub(super) owed: u64,
    pub(super) call: &'a Call,
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    pub(super) me: &'a str,
    pub(super) number: u64,
    pub(super) reach: Reach,
    /// Instances that are no more, where the bucket was not told of them yet.
    pub(super) dead: &'a str,
    /// Where instances hear that others left a line.
    pub(super) channel: &'a str,
}

impl Saying<'_> {
    /// A call of `leaky_bucket.lua`.
    pub(super) fn leaky_bucket<'s>(
        &self,
        script: &'s Script,
        names: &BucketNames,
        caller: &Caller<'_>,
    ) -> ScriptInvocation<'s> {
        let Self { pace, call, .. } = *self;
        let lead = if call.needs_lead {
            micros(caller.reach.notice)
        } else {
            0
        };
        let mut said = script.prepare_invoke();
        said.key(&names.bucket).key(&names.line);
        said.arg(self.now).arg(caller.me).arg(caller.number);
        self.interval(&mut said);
        said.arg(pace.burst().saturating_sub(pace.delay()))
            .arg(pace.delay())
            .arg(micros(caller.reach.horizon))
            .arg(lead);
        self.known(&mut said);
        said.arg(call.held)
            .arg(call.aside)
            .arg(u8::from(call.at_tail))
            .arg(list(call.returned.iter().map(|unused| unused.number)))
            .arg(list(call.left.iter()))
            .arg(list(call.wanted.iter().map(run)))
            .arg(caller.dead)
            .arg(call.hold.map_or(0, micros))
            .arg(caller.channel)
            .arg(call.paused.map_or(0, micros));
        said
    }

    /// A call of `token_bucket.lua`.
    pub(super) fn token_bucket<'s>(
        &self,
        script: &'s Script,
        names: &BucketNames,
    ) -> ScriptInvocation<'s> {
        let Self { pace, call, .. } = *self;
        let mut said = script.prepare_invoke();
        said.key(&names.bucket).arg(self.now);
        self.interval(&mut said);
        said.arg(pace.delay()).arg(pace.bound_in_ticks());
        self.known(&mut said);
        let unused = |unused: &Unused| format!("{}:{}", unused.number, unused.count);
        said.arg(list(call.returned.iter().map(unused)))
            .arg(list(call.wanted.iter().map(run)))
            .arg(call.spent)
            .arg(micros(call.debt));
        said
    }

    fn interval(&self, said: &mut ScriptInvocation<'_>) {
        let (micros, part, of) = self.pace.parts();
        said.arg(micros).arg(part).arg(of);
    }

    fn known(&self, said: &mut ScriptInvocation<'_>) {
        let known = self.call.known;
        let number = known.map_or(-1, |known| i64::try_from(known.number).unwrap_or(i64::MAX));
        said.arg(number)
            .arg(known.map_or(0, |known| known.next))
            .arg(self.owed);
    }
}

fn run(run: &Run) -> String {
    let most = run
        .max_wait
        .map_or("-1".to_owned(), |most| micros(most).to_string());
    format!("{}:{most}:{}", run.count, run.cost)
}

fn list(items: impl Iterator<Item = impl ToString>) -> String {
    items
        .map(|item| item.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
