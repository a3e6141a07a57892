//! `baton tools`: lists the tools that agents can call, and calls one by hand.

mod accept;

use std::time::Instant;

use baton_core::chat::RawCall;
use baton_core::effect::Admission;
use baton_core::json::as_text;
use baton_core::thread::Closing;
use baton_core::tool::{EffectClass, Egress, ToolSpec, Trust};
use baton_tools::{CallContext, ToolCallResult, VisibleTools};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::App;
use crate::columns::columns;
use crate::failure::{Failure, exit};
use crate::serve::problem::ProblemCode;
use crate::shape;
use crate::terminal::{brief, line, note, plain, shows_answers};

const EXAMPLES: &str = "\
Examples:
  baton tools ls
  baton tools show calculator
  baton tools call calculator expression=\"2 * 21\"
  baton tools call calculator '{\"expression\": \"2 * 21\"}'
  baton tools accept search_tickets     offers a tool of a service again that has changed";

/// The arguments of `baton tools`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: ToolsCommand,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// Lists the tools
    Ls,
    /// Shows a tool with the schema of its arguments
    Show {
        /// The tool's name
        name: String,
    },
    /// Calls a tool and prints its result
    Call(CallArgs),
    /// Accepts a tool of the execution service as it is now, after it has changed
    Accept {
        /// The tool's name, as the service has it
        name: String,
    },
}

#[derive(Debug, Args)]
struct CallArgs {
    /// The tool's name
    name: String,
    /// The arguments: one JSON object, or key=value for each
    #[arg(value_name = "JSON | KEY=VALUE", conflicts_with = "arguments")]
    given: Vec<String>,
    /// The arguments, as one JSON object
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(app: &App, args: ToolsArgs) -> Result<u8, Failure> {
    match args.command {
        ToolsCommand::Ls => ls(app),
        ToolsCommand::Show { name } => show(app, &name),
        ToolsCommand::Call(args) => call(app, args).await,
        ToolsCommand::Accept { name } => accept::run(app, &name).await,
    }
}

fn ls(app: &App) -> Result<u8, Failure> {
    let specs = app.engine.tools().specs();
    if app.json {
        line(shape::pretty(
            &serde_json::json!({"tools": specs.iter().map(shape::tool).collect::<Vec<_>>()}),
        ))?;
        return Ok(exit::OK);
    }
    let row = |spec: &ToolSpec| {
        let first = spec.description.split_inclusive(". ").next().unwrap_or_default();
        [spec.name.clone(), class(spec).to_owned(), facts(spec), brief(first.trim(), 90)]
    };
    let rows: Vec<_> = specs.iter().map(row).collect();
    line(columns(["TOOL", "EFFECT", "CARE", "WHAT IT DOES"], &rows))?;
    Ok(exit::OK)
}

fn class(spec: &ToolSpec) -> &'static str {
    match spec.class {
        EffectClass::SideEffectFree => "none",
        EffectClass::Idempotent => "repeatable",
        EffectClass::Unsafe => "once",
    }
}

/// The risks of a tool, in words.
fn facts(spec: &ToolSpec) -> String {
    let Trust { untrusted_output, private_output, egress, to_service, approve, built_in: _ } = spec.trust;
    let words = [
        untrusted_output.then_some("untrusted"),
        private_output.then_some("private"),
        to_service.then_some("egress to a service"),
        match egress {
            Egress::No => None,
            Egress::UnlessFound => Some("egress unless found"),
            Egress::Yes => Some("egress"),
        },
        approve.then_some("approval"),
    ];
    let told: Vec<&str> = words.into_iter().flatten().collect();
    if told.is_empty() { "-".to_owned() } else { told.join(", ") }
}

/// The risks of a tool, in sentences.
fn care(spec: &ToolSpec) -> Vec<&'static str> {
    let Trust { untrusted_output, private_output, egress, to_service, approve, built_in: _ } = spec.trust;
    let sentences = [
        untrusted_output.then_some("What it returns was written by strangers."),
        private_output.then_some(
            "What it returns is private: once it was read, whatever sends something out is asked about.",
        ),
        to_service
            .then_some("Its calls send their words to the service that is configured, and to nobody else."),
        match egress {
            Egress::No => None,
            Egress::UnlessFound => {
                Some("Its calls send something out, unless a search of the same run found the address.")
            }
            Egress::Yes => Some("Its calls send something out."),
        },
        approve.then_some("A person is asked about every call."),
    ];
    sentences.into_iter().flatten().collect()
}

fn show(app: &App, name: &str) -> Result<u8, Failure> {
    let tools = app.engine.tools();
    let Some(tool) = tools.get(name) else {
        return Err(Failure::not_found(format!("there is no tool {name:?}"))
            .hint("baton tools ls shows what there is"));
    };
    let spec = tool.spec();
    if app.json {
        line(shape::pretty(&shape::tool(spec)))?;
        return Ok(exit::OK);
    }
    line(format!("{name}: {}", plain(&spec.description)))?;
    line(match spec.class {
        EffectClass::SideEffectFree => "It changes nothing, and may run again after a crash.",
        EffectClass::Idempotent => "It may run again after a crash: the same call takes effect once.",
        EffectClass::Unsafe => "It is never run again when nobody knows whether it happened.",
    })?;
    care(spec).into_iter().try_for_each(line)?;
    line(format!("A call may take {} s.", spec.timeout_ms as f64 / 1000.0))?;
    line(format!("arguments: {}", shape::pretty(&spec.input_schema)))?;
    if let Some(schema) = &spec.output_schema {
        line(format!("result: {}", shape::pretty(schema)))?;
    }
    Ok(exit::OK)
}

async fn call(app: &App, args: CallArgs) -> Result<u8, Failure> {
    let tools = app.engine.tools();
    let schema = tools.get(&args.name).map(|tool| tool.spec().input_schema.clone()).unwrap_or_default();
    let arguments = match (args.arguments, args.given.as_slice()) {
        (Some(text), _) => text,
        (None, [text]) if text.trim_start().starts_with('{') => text.clone(),
        (None, pairs) => Value::Object(from_pairs(pairs, &schema)?).to_string(),
    };
    let checked = tools.check(&RawCall { id: None, name: args.name.clone(), arguments }, &VisibleTools::ALL);
    if let Admission::Refused { reason } = checked.admission {
        let failure = Failure::usage(reason);
        return Err(match tools.get(&args.name) {
            Some(_) => failure.hint(format!("baton tools show {} says what fits", args.name)),
            None => failure.of_kind(ProblemCode::NotFound).hint("baton tools ls shows what there is"),
        });
    }
    let key = Uuid::now_v7().simple().to_string();
    let (cancel, roots) = (CancellationToken::new(), Vec::new());
    let context = CallContext {
        call_id: key.clone(),
        key,
        cancel,
        roots,
        tenant: app.tenant.clone(),
        metadata: Value::Null,
        permit: Default::default(),
    };
    let begun = Instant::now();
    let ran = tools.call(&args.name, checked.arguments, context).await;
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    if app.json { answer_json(app, ran, took).await } else { answer(ran) }
}

/// Parses arguments from `key=value`. A value that the schema declares as a string stays one; any other is read as JSON
/// where it is JSON.
fn from_pairs(pairs: &[String], schema: &Value) -> Result<Map<String, Value>, Failure> {
    let mut arguments = Map::new();
    for pair in pairs {
        let Some((key, text)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Failure::usage(format!("{pair:?} is neither a JSON object nor key=value"))
                .hint("for example: expression=\"2 * 21\""));
        };
        let value = match is_text(&schema["properties"][key]) {
            true => Value::from(text),
            false => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        };
        if arguments.insert(key.to_owned(), value).is_some() {
            return Err(Failure::usage(format!("{key:?} is given twice")));
        }
    }
    Ok(arguments)
}

fn is_text(property: &Value) -> bool {
    match &property["type"] {
        Value::String(name) => name == "string",
        Value::Array(names) => names.iter().any(|name| name == "string"),
        _ => false,
    }
}

async fn answer_json(app: &App, ran: ToolCallResult, took: u64) -> Result<u8, Failure> {
    if let (Some(blob), Some(bytes)) = (&ran.outcome.blob, &ran.blob) {
        // The output names the blob, so it has to be stored before it is asked for.
        let at = baton_engine::Clock::now(&baton_engine::SystemClock);
        app.store().put_blob(&app.tenant, &blob.hash, bytes.clone(), at).await?;
    }
    line(shape::pretty(&shape::executed(&ran, took)))?;
    Ok(if ran.outcome.status == Closing::Ok { exit::OK } else { exit::FAILED })
}

/// Prints a result as text: whole, strings as they are, anything else as readable JSON.
fn answer(ran: ToolCallResult) -> Result<u8, Failure> {
    if ran.outcome.status != Closing::Ok {
        return Err(Failure::failed(plain(&as_text(&ran.outcome.result))));
    }
    let text = match (&ran.blob, &ran.outcome.result) {
        (Some(bytes), _) => String::from_utf8_lossy(bytes).into_owned(),
        (None, Value::String(text)) => text.clone(),
        (None, value) => shape::pretty(value),
    };
    line(if shows_answers() { plain(&text) } else { text.as_str().into() })?;
    if let Some(blob) = ran.outcome.blob.filter(|blob| blob.dropped > 0) {
        note(format!("its last {} bytes were dropped: it was too long to keep", blob.dropped));
    }
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pairs_become_what_the_schema_calls_for() {
        let schema = json!({"properties": {
            "name": {"type": "string"}, "maybe": {"type": ["string", "null"]},
            "n": {"type": "integer"}, "on": {"type": "boolean"}, "list": {"type": "array"},
        }});
        let pairs = ["name=12", "maybe=null", "n=12", "on=true", "list=[1]", "other=x=y"].map(str::to_owned);
        let expected =
            json!({"name": "12", "maybe": "null", "n": 12, "on": true, "list": [1], "other": "x=y"});
        assert_eq!(Value::Object(from_pairs(&pairs, &schema).unwrap()), expected);
    }

    #[test]
    fn what_is_no_pair_is_wrong_use() {
        let message = |pairs: &[&str]| {
            let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
            let failure = from_pairs(&pairs, &Value::Null).unwrap_err();
            (failure.code, failure.message)
        };
        let neither = |text: &str| (exit::USAGE, format!("{text:?} is neither a JSON object nor key=value"));
        assert_eq!(message(&["word"]), neither("word"));
        assert_eq!(message(&["=x"]), neither("=x"));
        assert_eq!(message(&["a=1", "a=2"]), (exit::USAGE, "\"a\" is given twice".to_owned()));
    }
}
