//! How is the store asked for leave to pass a window, and what does it answer?

use redis::{Script, ScriptInvocation};

use super::answer::OddReply;
use super::mapping::Mapping;
use super::names::BucketNames;
use super::{BucketName, RedisStore, StoreError};
use crate::metrics::StoreScript;
use crate::units::Moment;
use crate::window::{Answer, Call, Figures, Kind, Known, Window};

impl RedisStore {
    /// Asks for leave to pass a window.
    pub async fn window(
        &self,
        name: BucketName<'_>,
        window: &Window,
        call: &Call,
    ) -> Result<Answer, StoreError> {
        let names = self.names.bucket(name.limit, name.key);
        let (label, script) = match window.kind() {
            Kind::Fixed => (StoreScript::FixedWindow, &self.scripts.fixed_window),
            Kind::Log => (
                StoreScript::SlidingWindowLog,
                &self.scripts.sliding_window_log,
            ),
            Kind::Counter => (
                StoreScript::SlidingWindowCounter,
                &self.scripts.sliding_window_counter,
            ),
        };
        let said = saying(script, &names, 0, window, call, &self.names.channel());
        let batch = call.wanted.iter().map(|run| run.count).sum();
        let runs = call.wanted.len();
        let read =
            |reply: &[i64], mapping: &dyn Fn(u64) -> Mapping| read_and_note(reply, runs, mapping);
        self.call(label, &names, batch, &said, read).await
    }
}

/// A call of one of the three scripts; `now` is 0 for the store's own clock.
pub(super) fn saying<'s>(
    script: &'s Script,
    names: &BucketNames,
    now: u64,
    window: &Window,
    call: &Call,
    channel: &str,
) -> ScriptInvocation<'s> {
    let mut said = script.prepare_invoke();
    for key in names.window(window.kind()) {
        said.key(key);
    }
    let micros = |span: std::time::Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let Figures([first, second, third]) = call.known.map_or(Figures::default(), |k| k.figures);
    let number = call
        .known
        .map_or(-1, |known| i64::try_from(known.number).unwrap_or(i64::MAX));
    let owed = call.owed.iter();
    let owed = owed.map(|owed| format!("{}:{}", owed.at.as_micros(), owed.cost));
    let returned = call.returned.iter();
    let returned = returned.map(|loan| {
        let at = loan.at().as_micros();
        format!("{}:{at}:{}", loan.number(), loan.cost())
    });
    let wanted = call.wanted.iter();
    let wanted = wanted.map(|run| format!("{}:{}", run.count, run.cost));
    said.arg(now)
        .arg(window.limit())
        .arg(micros(window.span()))
        .arg(micros(window.offset()))
        .arg(number)
        .arg([first, second, third].as_slice())
        .arg(joined(owed))
        .arg(joined(returned))
        .arg(joined(wanted))
        .arg(channel);
    said
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

fn read_and_note(
    reply: &[i64],
    runs: usize,
    mapping: &dyn Fn(u64) -> Mapping,
) -> Result<Answer, OddReply> {
    let answer = read(reply, runs)?;
    // What windows say stays on the store's clock.
    let _noted = mapping(answer.now.as_micros());
    Ok(answer)
}

/// Reads the reply of a window's script for `runs` runs.
pub(super) fn read(reply: &[i64], runs: usize) -> Result<Answer, OddReply> {
    let (head, passed) = reply.split_first_chunk::<6>().ok_or(OddReply)?;
    let whole = |n: i64| u64::try_from(n).map_err(|_negative| OddReply);
    let [now, number, first, second, third, answered] = *head;
    if usize::try_from(answered).ok() != Some(runs) || passed.len() != runs {
        return Err(OddReply);
    }
    let passed = passed.iter().map(|n| u32::try_from(*n));
    Ok(Answer {
        now: Moment::from_micros(whole(now)?),
        known: Known {
            number: whole(number)?,
            figures: Figures([whole(first)?, whole(second)?, whole(third)?]),
        },
        passed: passed.collect::<Result<_, _>>().map_err(|_odd| OddReply)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reply_is_read_by_its_places() {
        let answer = read(&[100, 7, 60, 3, 2, 2, 4, 0], 2).expect("a reply");
        assert_eq!(answer.now, Moment::from_micros(100));
        assert_eq!(
            (answer.known.number, answer.known.figures.0),
            (7, [60, 3, 2])
        );
        assert_eq!(answer.passed, [4, 0]);
    }

    #[test]
    fn nonsense_is_no_answer() {
        for reply in [
            &[][..],
            &[100, 7, 60, 3, 2],
            &[100, 7, 60, 3, 2, 1],
            &[100, 7, 60, 3, 2, 0, 4],
            &[100, 7, 60, 3, 2, 1, -4],
            &[-100, 7, 60, 3, 2, 1, 4],
            &[100, 7, i64::MIN, 3, 2, 1, 4],
        ] {
            assert_eq!(read(reply, 1), Err(OddReply), "{reply:?}");
        }
    }

    proptest! {
        #[test]
        fn no_numbers_make_it_panic(
            reply in prop::collection::vec(any::<i64>(), 0..9),
            runs in 0..3_usize,
        ) {
            let _odd = read(&reply, runs);
        }
    }
}
