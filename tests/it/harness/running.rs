//! How does a process end with what it is for?

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Running(pub(super) Child);

impl Running {
    pub(super) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.0.id()).expect("an id");
        kill_process(Pid::from_raw(id).expect("an id"), signal).expect("a process");
    }

    /// Kills it now, whatever it does.
    pub(super) fn kill(&mut self) {
        // One that has ended by itself needs no killing.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
