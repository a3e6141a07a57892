//! `baton tools accept`: accepts a changed tool of the execution service, after the user has looked at it.

use baton_core::visible::{self, Findings};
use baton_tools::execution::pin;

use crate::app::App;
use crate::asking;
use crate::failure::{Failure, exit};
use crate::services;
use crate::shape;
use crate::terminal::{line, note};

/// Accepts the service's present description of a tool, and shows it.
pub(super) async fn run(app: &App, name: &str) -> Result<u8, Failure> {
    let Some(setting) = &app.config.services.execution else {
        return Err(Failure::usage("no execution service is configured")
            .hint("`services.execution.url` in baton.toml names one; built-in tools need no acceptance"));
    };
    let offered = services::offered(setting).await?;
    let specs = offered.map_err(|why| Failure::failed(format!("the execution service: {why}")))?;
    let Some(spec) = specs.into_iter().find(|spec| spec.name == name) else {
        return Err(Failure::not_found(format!("the execution service has no tool {name:?}"))
            .hint("baton doctor shows what it offers"));
    };
    app.store().remember(&pin(&spec)).await?;
    if app.json {
        line(shape::pretty(&shape::tool(&spec)))?;
        return Ok(exit::OK);
    }
    let mut findings = Findings::default();
    line(format!("{name}: {}", visible::text(&spec.description, &mut findings)))?;
    line(format!("arguments: {}", shape::pretty(&visible::json(&spec.input_schema, &mut findings))))?;
    asking::warned(&findings).iter().for_each(note);
    note(format!(
        "{name} is accepted as it is now; a service that runs offers it within `services.execution.refresh_s`"
    ));
    Ok(exit::OK)
}
