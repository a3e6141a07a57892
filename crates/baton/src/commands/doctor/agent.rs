//! The doctor's checks of the agent itself: its instructions, whether they fit the models that answer, and names in the
//! settings that match nothing.
//!
//! A check that passes adds no line, but for a template: it is rendered once, as a run would.

use std::os::unix::fs::PermissionsExt;

use baton_core::policy::{CallRule, Mode, Policy, Request, ToolRule};
use baton_core::role::Candidate;
use baton_core::thread::entry::ENTRY_TYPES;
use baton_core::tool::ToolSpec;
use baton_engine::template;

use super::Check;
use crate::config::{Config, KeyPlace, ResolvedConfig, Template, ValueOrigin, WebSetting, nearest, unfit};
use crate::models::Models;

/// The channel of a user's requests.
const CHANNEL: &str = "CHAT";

/// The types of entries that a model is never shown: excluding them is not needed and not wrong.
const NEVER_SHOWN: [&str; 2] = ["Waiting", "Finished"];

/// All checks of the agent, given all tools.
pub(super) fn checks(
    resolved: &ResolvedConfig,
    config: &Config,
    models: &Models,
    tools: &[ToolSpec],
) -> Vec<Check> {
    let mut checks = fits_nothing(resolved, config, tools);
    checks.extend(never_first(&config.policy, tools));
    let asked = Request { mode: Mode::default(), channel: CHANNEL };
    let decision = match config.policy.evaluate(&asked, tools) {
        Ok(decision) => decision,
        Err(error) => {
            checks.push(Check::failed(
                "policy",
                error.to_string(),
                "baton policy show prints the whole table",
            ));
            return checks;
        }
    };
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

/// The instructions, as a run would render them.
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

/// Models whose context window is full before any message. Four characters are counted as a token.
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

/// Patterns and types in the settings that match no tool and no entry.
fn fits_nothing(resolved: &ResolvedConfig, config: &Config, tools: &[ToolSpec]) -> Vec<Check> {
    let lists = resolved.tool_lists();
    let unfit = unfit(&lists, tools);
    let mut checks: Vec<Check> = unfit
        .iter()
        .map(|unfit| {
            let detail = format!("`{}` ({}): {unfit}", unfit.list.key, unfit.list.origin);
            let fix = "baton tools ls shows what there is";
            match config.is_mistaken(unfit) {
                true => Check::failed("settings", detail, fix),
                false => Check::warning("settings", detail, fix),
            }
        })
        .collect();
    let shown: Vec<&str> = ENTRY_TYPES.into_iter().filter(|t| !NEVER_SHOWN.contains(t)).collect();
    for name in resolved.names("render.exclude") {
        let plain = name.strip_suffix("State").unwrap_or(&name);
        if !ENTRY_TYPES.contains(&plain) {
            let fix = format!("types are {}; others are never shown to a model", shown.join(", "));
            let (key, why) = ("render.exclude", "is no type that a model sees");
            let origin = resolved.get(key).map_or(&ValueOrigin::Default, |found| &found.origin);
            checks.push(unmatched(key, origin, &name, why, &shown, fix));
        }
    }
    checks
}

/// Tools that are required to run first on a channel and are not allowed there in any mode.
fn never_first(policy: &Policy, tools: &[ToolSpec]) -> Vec<Check> {
    let Policy::Table(table) = policy else { return Vec::new() };
    let never = |channel: &str| {
        table.stated().channels.get(channel)?;
        let row = table.rows().channels.get(channel)?;
        let first = row.first_tool.as_deref().filter(|_| row.tool_rule == Some(ToolRule::Required))?;
        let loosest = Request { mode: Mode::Exploratory, channel };
        let decision = table.evaluate(&loosest, tools).ok()?;
        let what_helps = decision.would_allow(first)?;
        let detail =
            format!("`first_tool` of [policy.channels.{channel}] is {first:?}, which is never allowed there");
        Some(Check::warning("settings", detail, format!("it needs {what_helps}")))
    };
    table.channels().filter_map(never).collect()
}

fn unmatched(key: &str, origin: &ValueOrigin, name: &str, why: &str, known: &[&str], fix: String) -> Check {
    let meant = nearest(name, known.iter().copied()).map(|near| format!("; did you mean `{near}`?"));
    let name = baton_core::id::excerpt(name);
    let detail = format!("`{key}` ({origin}): {name:?} {why}{}", meant.unwrap_or_default());
    Check::warning("settings", detail, fix)
}

/// Key files that other users can read. The file is not named: the user might have put the key in place of its path.
pub(super) fn open_keys(models: &Models, web: &WebSetting) -> Vec<Check> {
    let open = |place: &KeyPlace| match place {
        KeyPlace::File(path, origin) => {
            let mode = std::fs::metadata(&path.0).ok()?.permissions().mode() & 0o777;
            (mode & 0o077 != 0).then(|| (mode, origin.to_string()))
        }
        KeyPlace::None | KeyPlace::Variable(_) => None,
    };
    let providers = models.serving().providers.iter();
    let providers = providers.map(|(name, it)| (name.as_str(), format!("providers.{name}"), &it.key));
    let search = web.search.iter().map(|it| (it.service.name(), "search".to_owned(), &it.key));
    providers
        .chain(search)
        .filter_map(|(name, key, place)| {
            let (mode, origin) = open(place)?;
            let detail =
                format!("the file of `{key}.key_file` ({origin}) can be read by others (mode {mode:o})");
            Some(Check::warning(format!("key of {name}"), detail, "chmod 600 on that file"))
        })
        .collect()
}
