//! What do many clients do to several instances, and what becomes of each?

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::backend::Backend;
use crate::departures::Departures;
use crate::instance::Instance;
use crate::wire::Connection;

/// A visit's number says where it went: instance 1 has 1,000,000 and on.
const NUMBERS: u32 = 1_000_000;

/// Clients that come to one instance at an even pace, each on a connection of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    to: SocketAddr,
    first: u32,
    per_second: f64,
    manner: Manner,
}

/// How they behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// All want the same, and stay.
    Stay,
    /// All want the same, and every other one leaves after 200 to 600 ms.
    HalfLeave,
    /// Each is alone with its key.
    Alone,
}

/// One client's visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) number: u32,
    pub(crate) sent: Instant,
    /// The status, and how long it took; `None` where the client left or the connection broke.
    pub(crate) answer: Option<(u16, Duration)>,
}

impl Visit {
    /// Whether it had a key that no other has.
    pub(crate) fn is_alone(&self) -> bool {
        self.number % NUMBERS >= NUMBERS / 2
    }
}

pub(crate) fn instance(number: u32) -> u32 {
    number / NUMBERS
}

/// A crowd of so many a second at each instance, in the order of both.
pub(crate) fn crowds(instances: &[Instance], paces: &[f64], manner: Manner) -> Vec<Crowd> {
    let firsts = (0..).map(|index| index * NUMBERS);
    let pairs = instances.iter().zip(paces).zip(firsts);
    let crowd = |((instance, pace), first): ((&Instance, &f64), u32)| Crowd {
        to: instance.address,
        // No two crowds at an instance have a number in common.
        first: first + u32::from(manner == Manner::Alone) * NUMBERS / 2,
        per_second: *pace,
        manner,
    };
    pairs.map(crowd).collect()
}

/// What happened in a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) begun: Instant,
    pub(crate) visits: Vec<Visit>,
    pub(crate) departures: Departures,
}

/// Lets them come for `span`, while `faults` happen; who is unserved then, leaves.
pub(crate) async fn run(
    backend: &Backend,
    crowds: &[Crowd],
    span: Duration,
    faults: impl Future<Output = Result<()>>,
) -> Result<Run> {
    let book = Book::default();
    backend.note_arrivals();
    let begun = Instant::now();
    let mut all = JoinSet::new();
    for crowd in crowds {
        all.spawn(come(*crowd, begun, book.clone()));
    }
    faults.await?;
    sleep_until((begun + span).into()).await;
    all.shutdown().await;
    let arrivals = backend.arrivals();
    let visits = book.lock().clone();
    let departures = Departures::of(begun, &arrivals, &visits);
    Ok(Run {
        begun,
        visits,
        departures,
    })
}

/// What is known of each visit so far. Held for a push or a look only.
#[derive(Clone, Debug, Default)]
struct Book(Arc<Mutex<Vec<Visit>>>);

impl Book {
    fn lock(&self) -> MutexGuard<'_, Vec<Visit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self, number: u32) -> (usize, Instant) {
        let (mut visits, sent) = (self.lock(), Instant::now());
        visits.push(Visit {
            number,
            sent,
            answer: None,
        });
        (visits.len() - 1, sent)
    }

    fn answered(&self, index: usize, answer: (u16, Duration)) {
        if let Some(visit) = self.lock().get_mut(index) {
            visit.answer = Some(answer);
        }
    }
}

async fn come(crowd: Crowd, begun: Instant, book: Book) {
    let mut visits = JoinSet::new();
    for count in 0_u32.. {
        let after = Duration::from_secs_f64(f64::from(count) / crowd.per_second);
        sleep_until((begun + after).into()).await;
        visits.spawn(visit(crowd, count, book.clone()));
        while visits.try_join_next().is_some() {}
    }
}

/// Fails where the instance is gone, which is what some parts are about.
async fn visit(crowd: Crowd, count: u32, book: Book) -> Result<()> {
    let number = crowd.first + count;
    let key = match crowd.manner {
        Manner::Stay | Manner::HalfLeave => "line".to_owned(),
        Manner::Alone => format!("alone-{number}"),
    };
    let request = format!("GET /{number} HTTP/1.1\r\nHost: bench.test\r\nX-Key: {key}\r\n\r\n");
    let mut connection = Connection::open(crowd.to).await?;
    let (index, sent) = book.sent(number);
    let asked = connection.ask(request.as_bytes());
    let status = if crowd.manner == Manner::HalfLeave && count % 2 == 1 {
        let patience = Duration::from_millis(200 + u64::from(count % 9) * 50);
        timeout(patience, asked).await.context("left")??
    } else {
        asked.await?
    };
    book.answered(index, (status, sent.elapsed()));
    Ok(())
}
