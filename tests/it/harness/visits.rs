//! What do many clients do to several weirs at once?

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{Client, Request, Response, Weir, ms};

/// Clients that come to one instance at an even pace, each on a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    to: SocketAddr,
    name: String,
    per_second: f64,
    /// After how long every other one leaves that has no answer.
    leaves: Option<Duration>,
}

/// One client's visit.
#[derive(Debug)]
pub(crate) struct Visit {
    /// What it asked for; no other visit did.
    pub(crate) target: String,
    pub(crate) sent: Instant,
    /// None where it left, or its connection broke.
    pub(crate) answer: Option<Response>,
    /// Whether it would leave before long.
    pub(crate) hasty: bool,
}

impl Crowd {
    pub(crate) fn of(weir: &Weir, name: &str, per_second: f64) -> Self {
        Self {
            to: weir.listen(),
            name: name.to_owned(),
            per_second,
            leaves: None,
        }
    }

    /// The same, of which every other one leaves after so long.
    pub(crate) const fn half_leaves(mut self, after: Duration) -> Self {
        self.leaves = Some(after);
        self
    }
}

impl Visit {
    /// 0 where there was no answer.
    pub(crate) fn status(&self) -> u16 {
        self.answer.as_ref().map_or(0, |answer| answer.status)
    }

    /// How long it took to its answer.
    pub(crate) fn took(&self) -> Duration {
        let answer = self.answer.as_ref().expect("an answer");
        answer.at.duration_since(self.sent)
    }
}

/// A crowd of one pace at each of these instances.
pub(crate) fn crowds(weirs: &[Weir], per_second: f64) -> Vec<Crowd> {
    let named = weirs.iter().enumerate();
    named
        .map(|(index, weir)| Crowd::of(weir, &index.to_string(), per_second))
        .collect()
}

/// What becomes of all who come within `span`, in the order in which they came.
pub(crate) async fn visits(crowds: &[Crowd], span: Duration) -> Vec<Visit> {
    let begun = Instant::now() + ms(5);
    let mut visits = JoinSet::new();
    for crowd in crowds {
        let all = crowd.clone();
        visits.spawn(async move { come(all, begun, span).await });
    }
    let mut visits: Vec<_> = visits.join_all().await.into_iter().flatten().collect();
    visits.sort_by_key(|visit| visit.sent);
    visits
}

async fn come(crowd: Crowd, begun: Instant, span: Duration) -> Vec<Visit> {
    let mut visits = JoinSet::new();
    for number in 0_u32.. {
        let after = Duration::from_secs_f64(f64::from(number) / crowd.per_second);
        if after >= span {
            break;
        }
        tokio::time::sleep_until((begun + after).into()).await;
        let leaves = crowd.leaves.filter(|_| number % 2 == 1);
        visits.spawn(visit(crowd.to, format!("/{}-{number}", crowd.name), leaves));
    }
    visits.join_all().await
}

async fn visit(to: SocketAddr, target: String, leaves: Option<Duration>) -> Visit {
    let mut visit = Visit {
        target,
        sent: Instant::now(),
        answer: None,
        hasty: leaves.is_some(),
    };
    let Ok(mut client) = Client::try_connect(to).await else {
        return visit;
    };
    visit.sent = Instant::now();
    if client
        .try_send(Request::get(&visit.target).bytes())
        .await
        .is_err()
    {
        return visit;
    }
    if let Some(patience) = leaves
        && client.is_silent_for(patience).await
    {
        client.reset();
        return visit;
    }
    visit.answer = client.try_response().await.ok();
    visit
}

/// That each who stayed was served, or refused for want of room.
pub(crate) fn none_failed(visits: &[Visit]) {
    let stayed = visits.iter().filter(|visit| !visit.hasty);
    let odd = stayed.filter(|visit| !matches!(visit.status(), 200 | 429));
    let odd: Vec<_> = odd.map(|visit| (&visit.target, visit.status())).collect();
    assert!(odd.is_empty(), "none fails: {odd:?}");
}
