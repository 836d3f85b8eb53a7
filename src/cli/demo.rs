//! What does weir do, in ten seconds?
//!
//! `act` says what is played; `backend`, `instance` and `client` play it and note
//! on the `tape` what happens. `frame` draws a `scene` in rows, the `screen` shows
//! them; `verdict` compares what is `measured` with what was promised.

mod act;
mod backend;
mod client;
mod frame;
#[cfg(test)]
mod frame_tests;
mod instance;
mod measured;
mod scene;
mod tape;
mod verdict;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::row::Ink;
use super::screen::{Manner, Screen};
use act::{Act, Limit, acts};
use frame::{Scale, frame};
use scene::Scene;
use tape::Tape;

const LIMIT: Limit = Limit { rate: 5, burst: 20 };

/// Requests in a burst: more than the line has room for.
const CROWD: usize = 30;

/// Time between two pictures.
const PICTURE: Duration = Duration::from_millis(40);

/// Time to read what an act came to.
const PAUSE: Duration = Duration::from_millis(600);

/// What a shell expects of a program that was interrupted.
const INTERRUPTED: u8 = 130;

/// Draws bursts as they drain, with backend, weir and clients in this process.
///
/// Fails where weir does not keep its promise.
pub(super) fn demo() -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            shown = show() => shown,
            _asked = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
            _asked = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
        }
    })
}

/// Plays the acts, one after another.
async fn show() -> anyhow::Result<ExitCode> {
    let tape = Arc::new(Tape::new());
    let backend = backend::begin(Arc::clone(&tape))?;
    let weir = instance::begin(LIMIT, backend).await?;
    let clients = client::clients()?;
    let mut screen = Screen::new(std::io::stdout(), Manner::of_stdout())?;
    let mut kept = true;
    for url in act::unlimited(backend, weir) {
        // In life connections are open before a burst comes, and code has run.
        let mut crowd = crowd(&clients, &tape, &url, &[Duration::ZERO]);
        while let Some(answered) = crowd.join_next().await {
            answered??;
        }
    }
    for act in acts(LIMIT, CROWD, backend, weir) {
        screen.say(Ink::Title, &act.title)?;
        let scene = play(&act, &clients, &tape, &mut screen).await?;
        let broken = verdict::broken(&scene, act.promise, LIMIT);
        let (ink, mark) = act.promise.mark(broken.is_empty());
        let measured = measured::sentence(&scene, act.promise, LIMIT);
        screen.say(ink, &format!("{mark} {measured}"))?;
        for broken in broken {
            kept = false;
            screen.say(Ink::Refused, &format!("{mark} not as promised: {broken}"))?;
        }
        screen.say(Ink::Plain, "")?;
        sleep(PAUSE).await;
    }
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Plays one act until all its clients have their answers and its time is over.
async fn play(
    act: &Act,
    clients: &reqwest::Client,
    tape: &Arc<Tape>,
    screen: &mut Screen,
) -> anyhow::Result<Scene> {
    let scale = Scale::fitting(screen.width(), LIMIT);
    let mut pictures = interval(PICTURE);
    pictures.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tape.rewind();
    let mut crowd = crowd(clients, tape, &act.url, &act.bursts);
    loop {
        tokio::select! {
            Some(answered) = crowd.join_next() => answered??,
            _due = pictures.tick() => {
                let (now, scene) = tape.so_far();
                let picture = frame(&scene, act.lanes, scale, act.lasts, now);
                if crowd.is_empty() && now >= act.lasts {
                    screen.keep(&picture)?;
                    return Ok(scene);
                }
                screen.draw(&picture)?;
            }
        }
    }
}

/// Sends a crowd to `url` in each of `bursts`, each after its delay.
fn crowd(
    clients: &reqwest::Client,
    tape: &Arc<Tape>,
    url: &str,
    bursts: &[Duration],
) -> JoinSet<anyhow::Result<()>> {
    let begin = Instant::now();
    let mut crowd = JoinSet::new();
    for burst in bursts {
        for _ in 0..CROWD {
            let (clients, tape) = (clients.clone(), Arc::clone(tape));
            crowd.spawn(client::ask(clients, url.to_owned(), begin + *burst, tape));
        }
    }
    crowd
}
