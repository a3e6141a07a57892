//! Leaving a run because the process was told to go: shows the remaining events, and then the run's status.

use baton_core::id::RunId;
use baton_core::run::RunStatus;
use baton_engine::EventReader;

use super::show;
use crate::app::App;
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::screen::Screen;
use crate::terminal::{DIM, note, styled};

/// Finishes or releases all runs, unless the process is told to go a second time. In either case the user sees the
/// run's status afterwards.
pub(super) async fn leave(
    app: &App,
    run: RunId,
    reader: &mut EventReader,
    screen: &mut Screen,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    note(styled(
        DIM,
        "told to go: the run is finished or let go of first; a second signal leaves it as it is",
    ));
    let mut shutdown = std::pin::pin!(app.engine.shutdown());
    let mut rests = false;
    let let_go = loop {
        tokio::select! {
            // Events that came before the end are shown before it.
            biased;
            seen = reader.next(), if !rests => rests = show(app, run, seen?, screen).await?.is_some(),
            () = &mut shutdown => break true,
            _ = interrupts.next() => break false,
        }
    };
    screen.end()?;
    let row = app.store().run(&app.tenant, run).await?;
    let is_elsewhere = row.owner != Some(app.engine.owner()) && app.store().is_held(&row).await;
    note(standing(run, row.status, is_elsewhere, let_go));
    Ok(())
}

/// The status of a run that this process has left, and a command for it.
fn standing(run: RunId, status: RunStatus, is_elsewhere: bool, let_go: bool) -> String {
    let id = run.short();
    match status {
        _ if status.has_ended() => format!("run {id} has ended ({})", status.as_str()),
        RunStatus::Suspended => format!("run {id} waits for a person: baton runs show {id} says for what"),
        _ if is_elsewhere => format!("run {id} goes on in another Baton: baton runs tail {id} follows it"),
        _ if let_go => {
            format!(
                "let go of run {id}: baton runs resume {id} goes on with it; a baton serve on this data may do so by itself"
            )
        }
        _ => format!("left run {id} as it was: baton runs resume {id} goes on with it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_run_stands_is_told_as_it_is() {
        let run: RunId = "019a9d5c-0000-7000-8000-00005d0c7b1e".parse().unwrap();
        let rows = [
            (RunStatus::Ok, false, true, "run 5d0c7b1e has ended (ok)"),
            (RunStatus::Cancelled, true, false, "run 5d0c7b1e has ended (cancelled)"),
            (
                RunStatus::Suspended,
                false,
                true,
                "run 5d0c7b1e waits for a person: baton runs show 5d0c7b1e says for what",
            ),
            (
                RunStatus::Running,
                true,
                true,
                "run 5d0c7b1e goes on in another Baton: baton runs tail 5d0c7b1e follows it",
            ),
            (
                RunStatus::Running,
                false,
                true,
                "let go of run 5d0c7b1e: baton runs resume 5d0c7b1e goes on with it; a baton serve on this data may do so by itself",
            ),
            (
                RunStatus::Running,
                false,
                false,
                "left run 5d0c7b1e as it was: baton runs resume 5d0c7b1e goes on with it",
            ),
        ];
        for (status, is_elsewhere, let_go, expected) in rows {
            assert_eq!(standing(run, status, is_elsewhere, let_go), expected);
        }
    }
}
