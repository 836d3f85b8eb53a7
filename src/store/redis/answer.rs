//! What does a script's reply say?

use super::mapping::Mapping;
use crate::line::{Answer, Grant, Known, Run};
use crate::units::Moment;

/// A reply that is none of the script's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OddReply;

/// What a grant in a reply stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grants {
    /// A slot, as `leaky_bucket.lua` promises them.
    Slots,
    /// All slots of a request, as `token_bucket.lua` gives them.
    Requests,
}

/// Reads the reply of either script to those who `wanted` something; `None` where a
/// later call has been there before.
pub(super) fn read(
    reply: &[i64],
    grants_are: Grants,
    wanted: &[Run],
    mapping: impl FnOnce(u64) -> Mapping,
) -> Result<Option<Answer>, OddReply> {
    if reply.is_empty() {
        return Ok(None);
    }
    let (head, rest) = reply.split_first_chunk::<8>().ok_or(OddReply)?;
    let [now, next, number, hold, length, tickets, place, answered] = *head;
    let whole = |n: i64| u64::try_from(n).map_err(|_negative| OddReply);
    let count = |n: i64| usize::try_from(n).map_err(|_negative| OddReply);
    let runs = wanted.len();
    if count(answered)? != runs || rest.len() < runs {
        return Err(OddReply);
    }
    let (joined, grants) = rest.split_at(runs);
    let (grants, odd) = grants.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(OddReply);
    }
    let joined = joined
        .iter()
        .map(|n| u32::try_from(*n).map_err(|_odd| OddReply))
        .collect::<Result<Vec<_>, _>>()?;
    let passed = wanted.iter().zip(&joined).flat_map(|(run, joined)| {
        // More than asked is nobody's.
        std::iter::repeat_n(run.cost, (*joined).min(run.count) as usize)
    });
    let counts = passed
        .take_while(|_| grants_are == Grants::Requests)
        .chain(std::iter::repeat(1));
    let mapping = mapping(whole(now)?);
    let here = |theirs: i64| whole(theirs).map(|theirs| mapping.here(theirs));
    let grant = |([number, slot], count): (&[i64; 2], u32)| {
        Ok(Grant {
            number: whole(*number)?,
            slot: here(*slot)?,
            count,
        })
    };
    let grants = grants.iter().zip(counts).map(grant);
    let grants = grants.collect::<Result<_, _>>()?;
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
        joined,
        grants,
        buried: 0,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Nine who ask for each of these costs.
    fn runs(costs: &[u32]) -> Vec<Run> {
        let run = |cost: &u32| Run {
            count: 9,
            max_wait: None,
            cost: *cost,
        };
        costs.iter().map(run).collect()
    }

    fn read_at_zero(reply: &[i64], costs: &[u32]) -> Result<Option<Answer>, OddReply> {
        let zero = |_now| Mapping::default();
        read(reply, Grants::Slots, &runs(costs), zero)
    }

    #[test]
    fn a_reply_is_read_by_its_places() {
        let answer = read_at_zero(&[100, 130, 7, 0, 3, 2, 1, 2, 4, 0, 6, 110, 7, 120], &[1, 1]);
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
            count: 1,
        };
        assert_eq!(answer.grants, [slot(6, 110), slot(7, 120)]);
    }

    /// Anything that a server may say.
    fn value() -> impl Strategy<Value = redis::Value> {
        use redis::Value as V;
        let leaf = prop_oneof![
            Just(V::Nil),
            Just(V::Okay),
            any::<i64>().prop_map(V::Int),
            any::<f64>().prop_map(V::Double),
            any::<bool>().prop_map(V::Boolean),
            "[0-9a-z.-]{0,24}".prop_map(|text| V::BulkString(text.into_bytes())),
            prop::collection::vec(any::<u8>(), 0..12).prop_map(V::BulkString),
            "\\PC{0,12}".prop_map(V::SimpleString),
        ];
        leaf.prop_recursive(3, 32, 12, |inner| {
            let pair = (inner.clone(), inner.clone());
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..14).prop_map(V::Array),
                prop::collection::vec(inner, 0..6).prop_map(V::Set),
                prop::collection::vec(pair, 0..4).prop_map(V::Map),
            ]
        })
    }

    /// Numbers as they come, and such as no clock says.
    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![0..20_i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)]
    }

    proptest! {
        #[test]
        fn no_reply_makes_it_panic(value in value(), runs in 0..4_usize) {
            if let Ok(reply) = redis::from_redis_value::<Vec<i64>>(value) {
                let _odd = read_at_zero(&reply, &vec![1; runs]);
            }
        }

        #[test]
        fn no_numbers_make_it_panic(
            reply in prop::collection::vec(number(), 0..20),
            runs in 0..4_usize,
            seen in any::<u64>(),
        ) {
            let mut mapping = Mapping::default();
            mapping.observe(seen, Moment::from_micros(5), Moment::from_micros(90));
            let wanted = self::runs(&vec![1; runs]);
            let answer = read(&reply, Grants::Requests, &wanted, |_now| mapping);
            if let Ok(Some(answer)) = answer {
                prop_assert_eq!(answer.joined.len(), runs);
                prop_assert_eq!(8 + runs + 2 * answer.grants.len(), reply.len());
            } else {
                prop_assert_eq!(answer == Ok(None), reply.is_empty());
            }
        }
    }

    #[test]
    fn a_grant_is_a_slot_or_all_that_a_request_needs() {
        let reply = [
            100, 130, 12, 0, 0, 0, -1, 3, 2, 0, 1, 3, 110, 6, 110, 12, 110,
        ];
        let wanted = runs(&[3, 4, 6]);
        for (grants_are, expected) in [(Grants::Requests, [3, 3, 6]), (Grants::Slots, [1, 1, 1])] {
            let answer = read(&reply, grants_are, &wanted, |_now| Mapping::default());
            let grants = answer.expect("a reply").expect("an answer").grants;
            let counts: Vec<_> = grants.iter().map(|grant| grant.count).collect();
            assert_eq!(counts, expected, "{grants_are:?}");
        }
    }

    #[test]
    fn a_stale_call_has_no_answer() {
        assert_eq!(read_at_zero(&[], &[1]), Ok(None));
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
            assert_eq!(read_at_zero(reply, &[1]), Err(OddReply), "{reply:?}");
        }
    }
}
