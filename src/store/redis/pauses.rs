//! What is paused, for all instances that share the store?
//!
//! Redis remembers a pause until its end, and the end of one as long as somebody may
//! hold it for paused. An instance says what was changed here until Redis has heard
//! it, and says again what Redis forgot.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{RedisStore, StoreError, StoreNews};
use crate::key::KeyId;
use crate::metrics::StoreScript;
use crate::units::Moment;

/// Pauses that Redis remembers at once, those that are over included.
const MOST: usize = 10_000;

/// How much longer it is remembered that a pause is over than it would have lasted.
const REMEMBERED: Duration = Duration::from_mins(1);

/// Ends that differ by no more are the same: they come over clocks and round trips.
const SAME: Duration = Duration::from_millis(200);

/// What is paused of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Paused {
    /// The limit's name.
    pub limit: String,
    /// The key; all where there is none.
    pub key: Option<KeyId>,
}

/// What this instance knows of pauses.
pub(super) type Pauses = HashMap<Paused, Pause>;

/// A pause, or that one is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    end: Moment,
    remembered: Moment,
    /// What is yet to be said of it.
    unsaid: Option<How>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Somebody asked for it.
    Set,
    /// Redis has forgotten it.
    Keep,
}

impl RedisStore {
    /// Pauses for `span`, on all instances; ends a pause where that is zero. Whether
    /// Redis has heard of it: if not yet, it is told as soon as it is back.
    pub async fn pause(&self, paused: Paused, span: Duration) -> bool {
        self.note_pause(paused.clone(), span);
        let heard = self.share_pauses().await;
        heard.is_ok() && self.is_said(&paused)
    }

    /// What is paused until when; what is no more has an end in the past.
    pub fn pauses(&self) -> Vec<(Paused, Moment)> {
        let pauses = self.pauses.lock();
        pauses
            .iter()
            .map(|(paused, pause)| (paused.clone(), pause.end))
            .collect()
    }

    /// Tells all other instances to send away those who wait.
    pub async fn purge(&self, paused: &Paused) -> Result<(), StoreError> {
        let mut publish = redis::cmd("PUBLISH");
        let message = format!("!purge {} {}", self.me, paused.field());
        publish.arg(self.names.channel()).arg(message);
        let said = async {
            let (_, mut connection) = self.connection().await?;
            Ok::<i64, StoreError>(connection.query(&publish).await?)
        };
        let said = tokio::time::timeout(self.config.timeout, said).await;
        said.map_err(|_elapsed| StoreError::Timeout)?.map(drop)
    }

    /// Says what Redis has not heard yet, and hears what it knows.
    pub(super) async fn share_pauses(&self) -> Result<(), StoreError> {
        // Of two at once the later would bring back what the earlier has changed.
        let _one = self.sharing.lock().await;
        self.pauses_changed.store(false, Ordering::Relaxed);
        for _again in 0..2 {
            let said = self.unsaid_pauses();
            let heard = self.tell_pauses(&said).await?;
            if self.take_pauses(&said, &heard) {
                let _full = self.news.try_send(StoreNews::Paused);
            }
            if !self.forgotten_pauses(&heard) {
                break;
            }
        }
        Ok(())
    }

    fn note_pause(&self, paused: Paused, span: Duration) {
        let now = self.clock.now();
        let end = now.after(span);
        let mut pauses = self.pauses.lock();
        let before = pauses.get(&paused).map_or(now, |pause| pause.remembered);
        let pause = Pause {
            end,
            remembered: before.max(end.after(REMEMBERED)),
            unsaid: Some(How::Set),
        };
        pauses.insert(paused, pause);
    }

    fn is_said(&self, paused: &Paused) -> bool {
        let pauses = self.pauses.lock();
        pauses
            .get(paused)
            .is_none_or(|pause| pause.unsaid.is_none())
    }

    fn unsaid_pauses(&self) -> Vec<(Paused, Pause)> {
        let pauses = self.pauses.lock();
        let unsaid = pauses.iter().filter(|(_, pause)| pause.unsaid.is_some());
        unsaid
            .map(|(paused, pause)| (paused.clone(), *pause))
            .collect()
    }

    async fn tell_pauses(
        &self,
        said: &[(Paused, Pause)],
    ) -> Result<Vec<(Paused, Duration)>, StoreError> {
        let mut script = self.scripts.pauses.prepare_invoke();
        script
            .key(self.names.pauses())
            .arg(self.names.channel())
            .arg(MOST);
        let began = self.clock.now();
        for (paused, pause) in said {
            let micros = |end: Moment| end.since(began).as_micros().to_string();
            script
                .arg(paused.field())
                .arg(if pause.unsaid == Some(How::Keep) {
                    "keep"
                } else {
                    "set"
                })
                .arg(micros(pause.end))
                .arg(micros(pause.remembered));
        }
        let reply: Result<Vec<redis::Value>, StoreError> = self.invoke(&script).await;
        let heard = reply.and_then(|reply| read(&reply));
        match &heard {
            Ok(_) => {
                let trip = self.clock.now().since(began);
                self.metrics.called(StoreScript::Pauses, trip);
            }
            Err(error) => self.metrics.failed(StoreScript::Pauses, error.kind()),
        }
        heard
    }

    /// Takes in what Redis knows; whether something is news.
    fn take_pauses(&self, said: &[(Paused, Pause)], heard: &[(Paused, Duration)]) -> bool {
        let now = self.clock.now();
        let mut pauses = self.pauses.lock();
        for (paused, pause) in said {
            // Unless it was changed once more meanwhile.
            if heard.iter().any(|(known, _)| known == paused)
                && let Some(known) = pauses.get_mut(paused)
                && known.end == pause.end
            {
                known.unsaid = None;
            }
        }
        let mut is_news = false;
        for (paused, left) in heard {
            let end = now.after(*left);
            let pause = pauses.entry(paused.clone()).or_insert(Pause {
                end: Moment::default(),
                remembered: end.after(REMEMBERED),
                unsaid: None,
            });
            let (here, there) = (pause.end.max(now), end);
            let differs = here.since(there).max(there.since(here)) > SAME;
            if pause.unsaid.is_none() && differs {
                pause.end = end;
                pause.remembered = pause.remembered.max(end.after(REMEMBERED));
                is_news = true;
            }
        }
        pauses.retain(|_, pause| pause.remembered > now);
        is_news
    }

    /// Notes what Redis knows nothing of, though it lasts.
    fn forgotten_pauses(&self, heard: &[(Paused, Duration)]) -> bool {
        let soon = self.clock.now().after(SAME);
        let mut pauses = self.pauses.lock();
        let mut forgotten = false;
        for (paused, pause) in pauses.iter_mut() {
            let lasts = pause.end > soon && pause.unsaid.is_none();
            if lasts && !heard.iter().any(|(known, _)| known == paused) {
                pause.unsaid = Some(How::Keep);
                forgotten = true;
            }
        }
        forgotten
    }
}

impl Paused {
    fn field(&self) -> String {
        match self.key {
            None => self.limit.clone(),
            Some(key) => format!("{}:{key}", self.limit),
        }
    }

    /// What is written so.
    pub(super) fn parse(field: &str) -> Option<Self> {
        Some(match field.split_once(':') {
            None => Self {
                limit: field.to_owned(),
                key: None,
            },
            Some((limit, key)) => Self {
                limit: limit.to_owned(),
                key: Some(KeyId::parse(key)?),
            },
        })
    }
}

fn read(reply: &[redis::Value]) -> Result<Vec<(Paused, Duration)>, StoreError> {
    let (pairs, rest) = reply.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(StoreError::Reply);
    }
    let odd = |_odd| StoreError::Reply;
    let mut heard = Vec::with_capacity(pairs.len());
    for [which, left] in pairs {
        let which: String = redis::from_redis_value_ref(which).map_err(odd)?;
        let left: u64 = redis::from_redis_value_ref(left).map_err(odd)?;
        // What somebody else wrote there is nobody's pause.
        heard.extend(Paused::parse(&which).map(|paused| (paused, Duration::from_micros(left))));
    }
    Ok(heard)
}
