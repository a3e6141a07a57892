//! The answers of the offline model: rendered results, a missing argument, or its abilities.
//!
//! Every answer ends with the note that no language model is connected.

use baton_core::tool::{ASK_USER, ToolSpec, UPDATE_PLAN};

use super::arguments::MissingArgument;
use super::conversation::{CallEnding, Conversation, ToolReport};
use super::markdown::{code, inline};
use super::render::rendered;

/// The last line of every answer.
const NOTE: &str = "(offline model: no language model is connected; `baton doctor` says how to connect one)";
/// After this many bytes no further result is told.
const MAX_ANSWER: usize = 24 * 1024;
/// How many tools are offered by name.
const MAX_OFFERED: usize = 8;

/// Example requests for the known tools; `read_blob` and similar tools are not for people.
const EXAMPLES: [(&str, &str); 7] = [
    ("system_health", "How is my machine doing?"),
    ("system_logs", "Show the last 20 errors in the logs"),
    ("clock", "What time is it?"),
    ("calculator", "What is 12 * 3.5?"),
    ("list_files", "List the files in src"),
    ("read_file", "Read notes.txt"),
    ("search_files", "Search for \"TODO\" in src"),
];
const NOT_FOR_PEOPLE: [&str; 4] = [ASK_USER, UPDATE_PLAN, "read_blob", "search_blob"];

/// An answer with its last line.
fn closed(body: &str) -> String {
    format!("{body}\n\n{NOTE}")
}

/// The results of tools as an answer.
pub(super) fn results(situation: &Conversation<'_>) -> String {
    // An answered question is not news for the person who answered it.
    let is_news = |told: &&ToolReport<'_>| told.tool != ASK_USER || told.ending != CallEnding::Ok;
    let told: Vec<&ToolReport<'_>> = situation.told.iter().filter(is_news).collect();
    if let [one] = told[..] {
        return closed(&section(one));
    }
    let mut body = String::new();
    for (at, told_one) in told.iter().enumerate() {
        if body.len() > MAX_ANSWER {
            body.push_str(&format!("\n\n… and {} more results.", told.len() - at));
            break;
        }
        let gap = if at == 0 { "" } else { "\n\n" };
        body.push_str(&format!("{gap}### {}\n\n{}", inline(told_one.tool), section(told_one)));
    }
    closed(&body)
}

fn section(told: &ToolReport<'_>) -> String {
    let (tool, why) = (code(told.tool), inline(told.text));
    match told.ending {
        CallEnding::Ok => rendered(told),
        CallEnding::Expired if told.tool == ASK_USER => {
            format!("My question was not answered in time: {why}")
        }
        CallEnding::Error => format!("{tool} did not work: {why}"),
        CallEnding::Denied => format!("{tool} was not allowed to run: {why}"),
        CallEnding::Expired => format!("{tool} did not run, because nobody decided in time: {why}"),
        CallEnding::Cancelled => format!("{tool} was cancelled: {why}"),
        CallEnding::Unknown => format!("Nobody knows whether {tool} took effect: {why}"),
    }
}

/// The question for an argument that is missing; complete in itself, for a person who reads it later.
pub(super) fn question(request: &str, tool: &ToolSpec, missing: &MissingArgument) -> String {
    let wanted = match (tool.name.as_str(), missing.name.as_str()) {
        ("read_file", "path") => "which file should I read? Its path, please.".to_owned(),
        ("calculator", "expression") => "what should I calculate? For example: 12 * 3.5".to_owned(),
        ("search_files", "pattern") => "what should I search for?".to_owned(),
        (tool, name) => {
            let about =
                missing.about.as_deref().map(|about| format!(" ({})", inline(about))).unwrap_or_default();
            format!("what should {} of {} be?{about}", code(name), code(tool))
        }
    };
    format!("For your request “{}”: {wanted}", inline(request))
}

/// The answer about a missing argument, where no tool can ask for it.
pub(super) fn lacking(tool: &ToolSpec, missing: &MissingArgument) -> String {
    let about = missing.about.as_deref().map(|about| format!(" ({})", inline(about))).unwrap_or_default();
    let example = example(&tool.name).map(|example| format!(" For example: “{example}”")).unwrap_or_default();
    closed(&format!(
        "{} needs {}{about}, and I do not find it in your request.{example}",
        code(&tool.name),
        code(&missing.name)
    ))
}

/// The answer that lists the offered tools.
pub(super) fn abilities(offered: &[ToolSpec]) -> String {
    let tools: Vec<&ToolSpec> =
        offered.iter().filter(|tool| !NOT_FOR_PEOPLE.contains(&tool.name.as_str())).collect();
    if tools.is_empty() {
        return closed(
            "I am not a language model, and no tools are offered to me here: I cannot answer this.",
        );
    }
    let mut lines = vec![
        "I am not a language model: I choose tools by the words of a request, and none fits this one. \
         What I can do here:"
            .to_owned(),
        String::new(),
    ];
    for tool in tools.iter().take(MAX_OFFERED) {
        let hint = match example(&tool.name) {
            Some(example) => format!("“{example}”"),
            None => inline(tool.description.split_inclusive(". ").next().unwrap_or_default()),
        };
        lines.push(format!("- {}: {hint}", code(&tool.name)));
    }
    if tools.len() > MAX_OFFERED {
        lines.push(format!("- … and {} more", tools.len() - MAX_OFFERED));
    }
    closed(&lines.join("\n"))
}

fn example(tool: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(name, _)| *name == tool).map(|(_, example)| *example)
}
