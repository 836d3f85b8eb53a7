//! What does a script's reply say?

use super::mapping::Mapping;
use crate::line::{Answer, Grant, Known};
use crate::units::Moment;

/// A reply that is none of the script's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OddReply;

/// Reads the reply of `leaky_bucket.lua` and `token_bucket.lua` for `runs` runs;
/// `None` where a later call has been there before.
pub(super) fn read(
    reply: &[i64],
    runs: usize,
    mapping: impl FnOnce(u64) -> Mapping,
) -> Result<Option<Answer>, OddReply> {
    if reply.is_empty() {
        return Ok(None);
    }
    let (head, rest) = reply.split_first_chunk::<8>().ok_or(OddReply)?;
    let [now, next, number, hold, length, tickets, place, answered] = *head;
    let whole = |n: i64| u64::try_from(n).map_err(|_negative| OddReply);
    let count = |n: i64| usize::try_from(n).map_err(|_negative| OddReply);
    if count(answered)? != runs || rest.len() < runs {
        return Err(OddReply);
    }
    let (joined, grants) = rest.split_at(runs);
    let (grants, odd) = grants.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(OddReply);
    }
    let mapping = mapping(whole(now)?);
    let here = |theirs: i64| whole(theirs).map(|theirs| mapping.here(theirs));
    let grant = |[number, slot]: &[i64; 2]| {
        Ok(Grant {
            number: whole(*number)?,
            slot: here(*slot)?,
        })
    };
    Ok(Some(Answer {
        known: Known {
            number: whole(number)?,
            next: whole(next)?,
        },
        next: here(next)?,
        hold: if hold == 0 {
            Moment::default()
        } else {
            here(hold)?
        },
        length: count(length)?,
        tickets: count(tickets)?,
        place: usize::try_from(place).ok(),
        joined: joined
            .iter()
            .map(|n| u32::try_from(*n).map_err(|_odd| OddReply))
            .collect::<Result<_, _>>()?,
        grants: grants.iter().map(grant).collect::<Result<_, _>>()?,
        buried: 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_at_zero(reply: &[i64], runs: usize) -> Result<Option<Answer>, OddReply> {
        read(reply, runs, |_now| Mapping::default())
    }

    #[test]
    fn a_reply_is_read_by_its_places() {
        let answer = read_at_zero(&[100, 130, 7, 0, 3, 2, 1, 2, 4, 0, 6, 110, 7, 120], 2);
        let answer = answer.expect("a reply").expect("an answer");
        assert_eq!(
            answer.known,
            Known {
                number: 7,
                next: 130
            }
        );
        assert_eq!(
            (answer.length, answer.tickets, answer.place),
            (3, 2, Some(1))
        );
        assert_eq!(answer.joined, [4, 0]);
        let slot = |number, at| Grant {
            number,
            slot: Moment::from_micros(at),
        };
        assert_eq!(answer.grants, [slot(6, 110), slot(7, 120)]);
    }

    #[test]
    fn a_stale_call_has_no_answer() {
        assert_eq!(read_at_zero(&[], 1), Ok(None));
    }

    #[test]
    fn nonsense_is_no_answer() {
        for reply in [
            &[1][..],
            &[100, 130, 7, 0, 3, 2, 1],
            &[100, 130, 7, 0, 3, 2, 1, 1],
            &[100, 130, 7, 0, 3, 2, 1, 2, 4, 4],
            &[100, 130, 7, 0, 3, 2, 1, 1, 4, 6],
            &[100, 130, 7, 0, 3, 2, 1, 1, -4],
            &[-100, 130, 7, 0, 3, 2, 1, 1, 4],
            &[100, 130, 7, 0, i64::MIN, 2, 1, 1, 4],
        ] {
            assert_eq!(read_at_zero(reply, 1), Err(OddReply), "{reply:?}");
        }
    }
}
