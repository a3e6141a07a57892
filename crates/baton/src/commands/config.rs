//! `baton config show`: every setting, and where it came from.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::Globals;
use crate::config::{Found, Origin, Settled};
use crate::failure::{Failure, exit};
use crate::terminal::{DIM, line, styled};

const EXAMPLES: &str = "\
Examples:
  baton config show
  BATON_MODEL=scripted/talk.json baton config show --json";

/// The arguments of `baton config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Shows every setting and where its value came from
    #[command(after_help = EXAMPLES)]
    Show {
        /// As `ask` would take it
        #[arg(long, value_name = "PROVIDER/NAME")]
        model: Option<String>,
    },
}

/// Runs the command.
pub(crate) fn run(globals: &Globals, args: &ConfigArgs) -> Result<u8, Failure> {
    let ConfigCommand::Show { model } = &args.command;
    let settled = Settled::find(globals, model.as_deref())?;
    if globals.json {
        let settings: Vec<Value> = settled.0.iter().map(object).collect();
        line(format!("{:#}", json!({ "settings": settings })))?;
        return Ok(exit::OK);
    }
    let widest = settled.0.iter().map(|found| found.setting.key.len()).max().unwrap_or_default();
    for found in &settled.0 {
        let value = found.value.as_ref().map_or("(not set)".to_owned(), ToString::to_string);
        let origin = styled(DIM, format!("# {}", found.origin));
        line(format!("{:<widest$} = {value}  {origin}", found.setting.key))?;
    }
    Ok(exit::OK)
}

fn object(found: &Found) -> Value {
    let (from, place) = match &found.origin {
        Origin::Flag(flag) => ("flag", Some((*flag).to_owned())),
        Origin::Environment(name) => ("environment", Some((*name).to_owned())),
        Origin::File(path, number) => ("file", Some(format!("{}:{number}", path.display()))),
        Origin::Default => ("default", None),
    };
    let value = found.value.as_ref().map_or(Value::Null, crate::config::Value::to_json);
    json!({"key": found.setting.key, "value": value, "from": from, "place": place})
}
