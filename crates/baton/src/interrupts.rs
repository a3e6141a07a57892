//! What the person or the system tells this process while it works: Ctrl-C and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Ctrl-C: stop what you are doing.
    Cancel,
    /// SIGTERM: leave in order.
    Leave,
}

/// Listens from the moment it is made; the signals no longer end the process by themselves.
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

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.cancel.recv() => Interrupt::Cancel,
            _ = self.leave.recv() => Interrupt::Leave,
            _ = self.gone.recv() => Interrupt::Leave,
        }
    }
}
