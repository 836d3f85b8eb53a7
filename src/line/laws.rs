//! Which laws hold for every bucket, whatever comes and goes?
//!
//! `model` answers from the definitions alone; in `history` a bucket and the
//! model live through the same `events`. What holds in every history is in
//! `every_history` and `announcements`; what a user could check with a watch,
//! played on a `stage`, in `seeds`, `crowds`, `loans`, `holds` and `reloads`. Where
//! instances share a bucket, `shared_model` is the store, `shared_run` has whole
//! instances; `shared` and `shared_cases` say what must hold.

mod announcements;
mod crowds;
mod events;
mod every_history;
mod history;
mod holds;
mod loans;
mod model;
mod reloads;
mod seeds;
mod shared;
mod shared_cases;
mod shared_holds;
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "histories are short, and a model that wraps is found out"
)]
pub(crate) mod shared_model;
pub(crate) mod shared_run;
mod stage;

/// So many random histories. None is kept in a file: a case that was found
/// becomes a test with a name.
fn cases(cases: u32) -> proptest::prelude::ProptestConfig {
    proptest::prelude::ProptestConfig {
        cases,
        failure_persistence: None,
        ..Default::default()
    }
}
