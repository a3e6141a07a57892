//! Signals from the user or the system: Ctrl-C, SIGTERM and a closed terminal.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The request that a signal makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Ctrl-C: stop what you are doing.
    Cancel,
    /// SIGTERM: leave in order.
    Leave,
}

/// A listener from the moment it is made; the signals no longer end the process by themselves.
#[derive(Debug)]
pub(crate) struct Interrupts {
    cancel: Signal,
    leave: Signal,
    /// The terminal was closed.
    gone: Signal,
}

impl Interrupts {
    /// Begins to listen.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Interrupts {
            cancel: signal(SignalKind::interrupt())?,
            leave: signal(SignalKind::terminate())?,
            gone: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.cancel.recv() => Interrupt::Cancel,
            _ = self.leave.recv() => Interrupt::Leave,
            _ = self.gone.recv() => Interrupt::Leave,
        }
    }
}
