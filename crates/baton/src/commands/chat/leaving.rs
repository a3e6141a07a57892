//! Leaving a chat in order: its runs are finished or released, and a user who waits gets an explanation.

use std::pin::pin;
use std::time::Duration;

use crate::app::App;
use crate::failure::exit;
use crate::interrupts::{Interrupt, Interrupts};
use crate::terminal::note;

/// The time that leaving may take before it is explained.
const UNEXPLAINED: Duration = Duration::from_millis(300);

/// Waits until every run is finished or released, or the user does not want to wait; returns the exit code.
pub(super) async fn leave(app: &App, interrupts: &mut Interrupts, mut code: u8) -> u8 {
    let mut done = pin!(app.engine.shutdown());
    let mut silence = pin!(tokio::time::sleep(UNEXPLAINED));
    let mut told = false;
    loop {
        tokio::select! {
            () = &mut done => return code,
            () = &mut silence, if !told => {
                told = true;
                explain(app).await;
            }
            interrupt = interrupts.next() => match interrupt {
                Interrupt::Cancel => return exit::CANCELLED,
                Interrupt::Leave => code = exit::TERMINATED, // as it does already
            },
        }
    }
}

/// Prints which runs are waited for.
async fn explain(app: &App) {
    let held = app.store().pulses(app.engine.owner()).await.unwrap_or_default();
    let runs: Vec<String> = held.iter().map(|pulse| format!("run {}", pulse.run.short())).collect();
    if !runs.is_empty() {
        note(format!("waiting for {}; Ctrl-C leaves at once", runs.join(", ")));
    }
}
