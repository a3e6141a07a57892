//! `baton demo crash`: kills an agent in the middle of a tool call, and shows that nothing is lost and
//! nothing happens twice.
//!
//! Real processes and a real SIGKILL: this program starts itself as a child, follows the child's run
//! through the store as any client would, kills the child and starts another. Everything is in a
//! temporary folder; the user's own data is not touched.

mod drive;
mod scenario;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::{Color, Globals};
use crate::failure::{Failure, exit};
use crate::terminal::{BAD, BOLD, GOOD, line, note, styled};
use scenario::{ScenarioClass, ScenarioResult};

pub(crate) use drive::DriveArgs;

const EXAMPLES: &str = "\
Examples:
  baton demo crash
  baton demo crash --keep      keeps the folder, to look at it with baton --data DIR runs ls";

/// The arguments of `baton demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    pub(crate) command: DemoCommand,
}

/// What is demonstrated.
#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Kills an agent in the middle of a tool call; nothing is lost, nothing happens twice
    #[command(after_help = EXAMPLES)]
    Crash {
        /// Keeps the folder in which it happened
        #[arg(long)]
        keep: bool,
    },
    /// The process that is killed
    #[command(hide = true)]
    Drive(DriveArgs),
}

/// Runs the command.
pub(crate) async fn run(globals: &Globals, args: DemoArgs) -> Result<u8, Failure> {
    match args.command {
        DemoCommand::Crash { keep } => crash(globals.json, keep).await,
        DemoCommand::Drive(args) => drive::run(globals, args).await,
    }
}

async fn crash(json: bool, keep: bool) -> Result<u8, Failure> {
    let folder = tempfile::Builder::new().prefix("baton-demo-").tempdir()?;
    let mut shown = Vec::new();
    for class in [ScenarioClass::Unsafe, ScenarioClass::Idempotent] {
        let place = DemoFolder::prepare(folder.path().join(class.as_str()))?;
        if !json {
            line(styled(BOLD, class.title()))?;
        }
        let outcome = scenario::play(&place, class, json).await?;
        if !json {
            outcome.claims().iter().try_for_each(|(claim, holds)| {
                let mark = if *holds { styled(GOOD, "✓") } else { styled(BAD, "✗") };
                line(format!("   {mark} {claim}"))
            })?;
            line("")?;
        }
        shown.push(outcome);
    }
    let holds = shown.iter().all(ScenarioResult::holds);
    if json {
        line(format!("{:#}", json!({"ok": holds, "scenarios": shown})))?;
    } else if holds {
        line("Nothing was lost, and nothing happened twice.")?;
    } else {
        line("A promise did not hold: this is a fault of Baton. Please report it with the folder below.")?;
    }
    if keep || !holds {
        note(format!("kept: {}", folder.keep().display()));
    }
    Ok(if holds { exit::OK } else { exit::FAILED })
}

/// The folder of one scenario, and the files in it.
struct DemoFolder {
    folder: PathBuf,
}

impl DemoFolder {
    fn prepare(folder: PathBuf) -> Result<DemoFolder, Failure> {
        std::fs::create_dir_all(&folder)?;
        let place = DemoFolder { folder };
        std::fs::write(place.config(), "")?;
        Ok(place)
    }

    fn config(&self) -> PathBuf {
        self.folder.join("baton.toml")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn script(&self) -> PathBuf {
        self.folder.join("script.json")
    }

    /// The file to which the tool appends a line for every effect.
    fn effects(&self) -> PathBuf {
        self.folder.join("effects")
    }

    fn globals(&self) -> Globals {
        let (config, data) = (Some(self.config()), Some(self.data()));
        Globals { config, data, json: true, verbose: 0, color: Color::Auto }
    }
}
