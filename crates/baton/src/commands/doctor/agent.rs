//! What the doctor looks at of the agent itself: its instructions, whether they fit the models that answer, and
//! names in the settings that fit nothing.
//!
//! What is right is passed over in silence, but for a template: it is rendered once, as a run would.

use std::os::unix::fs::PermissionsExt;

use baton_core::policy::{CallRule, Mode, Request, matches};
use baton_core::role::Candidate;
use baton_core::thread::entry::ENTRY_TYPES;
use baton_core::tool::ToolSpec;
use baton_engine::template;

use super::Check;
use crate::config::{Config, KeyPlace, Settled, Template, nearest};
use crate::models::Models;

/// Where a person's requests come in.
const CHANNEL: &str = "CHAT";

/// The types of entries that a model is never shown: to leave them out is not needed and not wrong.
const NEVER_SHOWN: [&str; 2] = ["Waiting", "Finished"];

/// Everything about the agent, given all tools.
pub(super) fn checks(settled: &Settled, config: &Config, models: &Models, tools: &[ToolSpec]) -> Vec<Check> {
    let mut checks = fits_nothing(settled, tools);
    let decision = config.policy.evaluate(&Request { mode: Mode::default(), channel: CHANNEL });
    let allowed = |spec: &&ToolSpec| decision.call(&spec.name) != CallRule::Denied;
    let offered: Vec<ToolSpec> = tools.iter().filter(allowed).cloned().collect();
    match instructions(config, &offered) {
        Err(check) => checks.push(check),
        Ok(system) => {
            if let Some(template) = &config.template {
                checks.push(Check::ok("instructions", format!("{} gives them", of(template))));
            }
            let candidates = models.configured().map(|chosen| {
                let all = chosen.role_names().into_iter().flat_map(|role| chosen.role(role));
                all.collect::<Vec<Candidate>>()
            });
            let allowed = decision.limits.answer_tokens;
            checks.extend(too_small(&candidates.unwrap_or_default(), &system, &offered, allowed));
        }
    }
    checks
}

fn of(template: &Template) -> String {
    match template {
        Template::Inline(_) => "behavior_template".to_owned(),
        Template::File(path, _) => format!("the template {}", path.display()),
    }
}

/// The instructions, as a run would have them.
fn instructions(config: &Config, tools: &[ToolSpec]) -> Result<String, Check> {
    let system = config.system.as_str();
    let Some(template) = &config.template else { return Ok(system.to_owned()) };
    let text = template.text().map_err(|failure| Check::refused("instructions", failure))?;
    let known = template::Known { system, mode: Mode::default(), channel: CHANNEL, tools };
    template::render(&text, &known).map_err(|error| {
        let why = match template {
            Template::Inline(_) => error.to_string(),
            Template::File(path, _) => format!("{}: {error}", path.display()),
        };
        Check::failed("instructions", why, "no run begins before that is right; docs/models.md has examples")
    })
}

/// Models whose window has no place for anything that is said. Four letters are counted as a token.
fn too_small(candidates: &[Candidate], system: &str, tools: &[ToolSpec], allowed: u64) -> Vec<Check> {
    let count = |text: &str| text.chars().count().div_ceil(4) as u64;
    let tool = |tool: &ToolSpec| {
        count(&tool.name) + count(&tool.description) + count(&tool.input_schema.to_string())
    };
    let fixed = count(system) + tools.iter().map(tool).sum::<u64>();
    let mut told: Vec<Check> = Vec::new();
    for candidate in candidates {
        let Some(window) = candidate.context_window else { continue };
        let answer = candidate.answer_tokens(allowed);
        let Some(over) = (fixed + answer).checked_sub(window).filter(|over| *over > 0) else { continue };
        let detail = format!(
            "instructions and tools ({fixed} tokens) and an answer ({answer}) do not fit the context_window of {} ({window}): {over} too many",
            candidate.model
        );
        let fix = "offer fewer tools with policy.tools, shorten the instructions, or say a larger context_window if it has one";
        let check = Check::failed("context window", detail, fix);
        if !told.contains(&check) {
            told.push(check);
        }
    }
    told
}

/// Patterns and types in the settings that fit nothing that there is.
fn fits_nothing(settled: &Settled, tools: &[ToolSpec]) -> Vec<Check> {
    let tools: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut checks = Vec::new();
    for key in ["policy.tools", "policy.approve"] {
        for pattern in settled.names(key) {
            if !tools.iter().any(|tool| matches(&pattern, tool)) {
                let fix = "baton tools ls shows what there is";
                checks.push(unmatched(settled, key, &pattern, "fits no tool", &tools, fix.to_owned()));
            }
        }
    }
    let shown: Vec<&str> = ENTRY_TYPES.into_iter().filter(|t| !NEVER_SHOWN.contains(t)).collect();
    for name in settled.names("render.exclude") {
        let plain = name.strip_suffix("State").unwrap_or(&name);
        if !ENTRY_TYPES.contains(&plain) {
            let fix = format!("types are {}; others are never shown to a model", shown.join(", "));
            checks.push(unmatched(
                settled,
                "render.exclude",
                &name,
                "is no type that a model sees",
                &shown,
                fix,
            ));
        }
    }
    checks
}

fn unmatched(settled: &Settled, key: &str, name: &str, why: &str, known: &[&str], fix: String) -> Check {
    let origin = settled.get(key).map(|found| found.origin.to_string()).unwrap_or_default();
    let meant = nearest(name, known.iter().copied()).map(|near| format!("; did you mean `{near}`?"));
    let name = baton_core::id::excerpt(name);
    let detail = format!("`{key}` ({origin}): {name:?} {why}{}", meant.unwrap_or_default());
    Check::warning("settings", detail, fix)
}

/// A key in a file that others can read. The file is not named: somebody might have put the key in its place.
pub(super) fn open_keys(models: &Models) -> Vec<Check> {
    let open = |place: &KeyPlace| match place {
        KeyPlace::File(path, origin) => {
            let mode = std::fs::metadata(&path.0).ok()?.permissions().mode() & 0o777;
            (mode & 0o077 != 0).then(|| (mode, origin.to_string()))
        }
        KeyPlace::None | KeyPlace::Variable(_) => None,
    };
    let providers = models.serving().providers.iter();
    providers
        .filter_map(|(name, it)| {
            let (mode, origin) = open(&it.key)?;
            let detail = format!(
                "the file of `providers.{name}.key_file` ({origin}) can be read by others (mode {mode:o})"
            );
            Some(Check::warning(format!("key of {name}"), detail, "chmod 600 on that file"))
        })
        .collect()
}
