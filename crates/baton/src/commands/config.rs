//! `baton config show`: every setting, and where it came from.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::Globals;
use crate::config::{Config, ResolvedConfig, ValueOrigin};
use crate::failure::{Failure, exit};
use crate::terminal::{DIM, line, styled};

const EXAMPLES: &str = "\
Examples:
  baton config show
  BATON_MODEL=openai/gpt-5-mini baton config show --json";

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
    let resolved = ResolvedConfig::find(globals, model.as_deref())?;
    Config::new(&resolved)?; // conflicts between settings are reported here, too
    let rows: Vec<ConfigRow<'_>> = rows(&resolved).collect();
    if globals.json {
        let settings: Vec<Value> = rows.iter().map(object).collect();
        line(format!("{:#}", json!({ "settings": settings })))?;
        return Ok(exit::OK);
    }
    let widest = rows.iter().map(|row| row.key.len()).max().unwrap_or_default();
    for row in &rows {
        let value = row.value.map_or("(not set)".to_owned(), ToString::to_string);
        let origin = styled(DIM, format!("# {}", row.origin));
        line(format!("{:<widest$} = {value}  {origin}", row.key))?;
    }
    Ok(exit::OK)
}

/// One value with its whole key.
struct ConfigRow<'a> {
    key: String,
    value: Option<&'a crate::config::Value>,
    origin: &'a ValueOrigin,
}

/// The fixed settings, then the values of the tables with chosen names.
fn rows(resolved: &ResolvedConfig) -> impl Iterator<Item = ConfigRow<'_>> {
    let fixed = resolved.fixed.iter().map(|found| ConfigRow {
        key: found.setting.key.to_owned(),
        value: found.value.as_ref(),
        origin: &found.origin,
    });
    let stated =
        resolved.groups.iter().flat_map(|group| group.values.iter().map(move |stated| (group, stated)));
    fixed.chain(stated.map(|(group, stated)| ConfigRow {
        key: format!("{}.{}", group.key(), stated.field.name()),
        value: Some(&stated.value),
        origin: &stated.origin,
    }))
}

fn object(row: &ConfigRow<'_>) -> Value {
    let (from, place) = match row.origin {
        ValueOrigin::Flag(flag) => ("flag", Some((*flag).to_owned())),
        ValueOrigin::Environment(name) => ("environment", Some((*name).to_owned())),
        ValueOrigin::File(path, number) => ("file", Some(format!("{}:{number}", path.display()))),
        ValueOrigin::Default => ("default", None),
    };
    let value = row.value.map_or(Value::Null, crate::config::Value::to_json);
    json!({"key": row.key, "value": value, "from": from, "place": place})
}
