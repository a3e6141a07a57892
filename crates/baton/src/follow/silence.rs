//! A spinner with the awaited model, shown after a while without events.

use std::future::pending;
use std::time::Instant;

use baton_core::id::RunId;

use crate::app::App;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::terminal::brief;

/// The most characters of a model's name.
const BRIEF: usize = 60;

/// Waits until a moment; without one, for ever.
pub(super) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => pending().await,
    }
}

/// Shows that the run waits for its model.
pub(super) async fn explain(app: &App, run: RunId, screen: &mut Screen) -> Result<(), Failure> {
    let row = app.store().run(&app.tenant, run).await?;
    let definition = app.store().definition(&app.tenant, &row.definition).await?;
    let role = definition.decision.roles.first().map(String::as_str).unwrap_or_default();
    let asked = definition.ladder(role).into_iter().next();
    let model = asked.as_ref().map_or(&definition.model, |rung| &rung.candidate.model);
    screen.sign(&brief(model, BRIEF));
    Ok(())
}
