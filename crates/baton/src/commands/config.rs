//! `baton config show`: every setting, and where it came from.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::Globals;
use crate::config::{Config, Origin, Settled};
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
    let settled = Settled::find(globals, model.as_deref())?;
    Config::new(&settled)?; // conflicts between settings are reported here, too
    let rows: Vec<Row<'_>> = rows(&settled).collect();
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
struct Row<'a> {
    key: String,
    value: Option<&'a crate::config::Value>,
    origin: &'a Origin,
}

/// The fixed settings, then the values of the tables with chosen names.
fn rows(settled: &Settled) -> impl Iterator<Item = Row<'_>> {
    let fixed = settled.fixed.iter().map(|found| Row {
        key: found.setting.key.to_owned(),
        value: found.value.as_ref(),
        origin: &found.origin,
    });
    let stated =
        settled.groups.iter().flat_map(|group| group.values.iter().map(move |stated| (group, stated)));
    fixed.chain(stated.map(|(group, stated)| Row {
        key: format!("{}.{}", group.key(), stated.field.name()),
        value: Some(&stated.value),
        origin: &stated.origin,
    }))
}

fn object(row: &Row<'_>) -> Value {
    let (from, place) = match row.origin {
        Origin::Flag(flag) => ("flag", Some((*flag).to_owned())),
        Origin::Environment(name) => ("environment", Some((*name).to_owned())),
        Origin::File(path, number) => ("file", Some(format!("{}:{number}", path.display()))),
        Origin::Default => ("default", None),
    };
    let value = row.value.map_or(Value::Null, crate::config::Value::to_json);
    json!({"key": row.key, "value": value, "from": from, "place": place})
}
