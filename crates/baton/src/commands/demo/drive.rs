//! The process that the demonstration kills: an `ask` with a tool that has effects.

use baton_core::id::RunId;
use baton_engine::RunRequest;
use baton_store::ClaimMode;
use clap::Args;

use crate::app::App;
use crate::cli::Globals;
use crate::config::{Config, ResolvedConfig};
use crate::failure::Failure;
use crate::follow::{FollowOptions, follow};
use crate::open::AppPurpose;
use crate::screen::Show;

/// The arguments of `baton demo drive`.
#[derive(Debug, Args)]
pub(crate) struct DriveArgs {
    /// The script that the model plays
    #[arg(long)]
    model: Option<String>,
    /// Goes on with this run instead of beginning one
    #[arg(long)]
    run: Option<RunId>,
}

/// Begins a run, or goes on with one.
pub(super) async fn run(globals: &Globals, args: DriveArgs) -> Result<u8, Failure> {
    let mut config = Config::new(&ResolvedConfig::find(globals, args.model.as_deref())?)?;
    config.store.url = None; // a demonstration leaves nothing in the user's database
    crate::log::begin(config.log);
    let app = App::open(config, AppPurpose { json: true, test_tools: true, ..AppPurpose::default() }).await?;
    let handle = match args.run {
        Some(run) => app.engine.resume(&app.tenant, run, ClaimMode::IfFree).await?,
        None => {
            let chosen = app.models.choose().await?;
            app.engine.start(RunRequest::new("Do the thing, once.", chosen.model)).await?
        }
    };
    follow(&app, handle, FollowOptions { show: Show::Json, ..FollowOptions::default() }).await
}
