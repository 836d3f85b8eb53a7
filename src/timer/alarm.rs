//! How does a runtime learn that an instant has come?

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Rings once after the span that was set last.
#[derive(Debug)]
pub(super) enum Alarm {
    /// The kernel's, where it has one.
    #[cfg(target_os = "linux")]
    Fine(fine::Fine),
    /// tokio's.
    Coarse(Coarse),
}

#[derive(Debug, Default)]
pub(super) struct Coarse {
    at: Mutex<Option<Instant>>,
    changed: Notify,
}

impl Alarm {
    #[cfg(target_os = "linux")]
    pub(super) fn fine() -> io::Result<Self> {
        fine::Fine::new().map(Self::Fine)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn fine() -> io::Result<Self> {
        Ok(Self::coarse())
    }

    pub(super) fn coarse() -> Self {
        Self::Coarse(Coarse::default())
    }

    /// Ties the alarm to the runtime in which it will ring.
    pub(super) fn attach(&self) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Fine(fine) => fine.attach(),
            Self::Coarse(_) => Ok(()),
        }
    }

    /// Rings after `span`, instead of when it was set to.
    pub(super) fn set(&self, span: Duration) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Fine(fine) => fine.set(span),
            Self::Coarse(coarse) => {
                *coarse.at.lock() = Some(Instant::now() + span);
                coarse.changed.notify_one();
            }
        }
    }

    /// Waits for the next ring.
    pub(super) async fn rung(&self) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Fine(fine) => fine.rung().await,
            Self::Coarse(coarse) => {
                coarse.rung().await;
                Ok(())
            }
        }
    }
}

impl Coarse {
    async fn rung(&self) {
        loop {
            let at = *self.at.lock();
            let ring = async {
                match at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ring => {
                    self.at.lock().take();
                    return;
                }
                () = self.changed.notified() => (),
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod fine {
    //! How is it done with a timerfd?

    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::{Duration, OnceLock, io};

    /// Any thread sets it, by the kernel's own locking; one runtime reads it.
    #[derive(Debug)]
    pub(in crate::timer) struct Fine {
        timer: OwnedFd,
        reader: OnceLock<AsyncFd<OwnedFd>>,
    }

    impl Fine {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self {
                timer,
                reader: OnceLock::new(),
            })
        }

        pub(super) fn attach(&self) -> io::Result<()> {
            #[expect(
                deprecated,
                reason = "its heir is unsafe, for types whose descriptor may change; this one owns its own"
            )]
            let reader = AsyncFd::with_interest(self.timer.try_clone()?, Interest::READABLE)?;
            self.reader
                .set(reader)
                .map_err(|_second| io::Error::other("a timer runs in one runtime only"))
        }

        pub(super) fn set(&self, span: Duration) {
            // Zero would stop the timer.
            let span = span.max(Duration::from_nanos(1));
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec {
                    tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: i64::from(span.subsec_nanos()),
                },
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)
                .expect("a timerfd takes any positive span");
        }

        pub(super) async fn rung(&self) -> io::Result<()> {
            let reader = self.reader.get().ok_or(io::ErrorKind::NotConnected)?;
            loop {
                let mut ready = reader.readable().await?;
                let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut [0; 8])?));
                match read {
                    Ok(Ok(_expirations)) => return Ok(()),
                    Ok(Err(failed)) => return Err(failed),
                    Err(_would_block) => (),
                }
            }
        }
    }
}
