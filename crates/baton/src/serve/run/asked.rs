//! Makes the request to the engine from the request of a caller.
//!
//! A caller can only narrow the policy. Names that the caller may not use are refused here, with the rule; numbers are
//! passed on, and capped by the engine with a warning. Nothing is looked up in the store: missing things are noticed
//! when the run begins.

use baton_core::id::ThreadId;
use baton_core::policy::Mode;
use baton_core::role::Roles;
use baton_core::trace::TraceParent;
use baton_engine::{Narrow, OnBusy, RunRequest};
use baton_store::NewKey;
use serde_json::Value;

use super::super::auth::Caller;
use super::super::problem::{Problem, ProblemCode};
use super::super::shapes::{OnDisconnect, RunConfig, WhenBusy};
use super::super::state::Service;

/// The only agent.
const AGENT: &str = "default";
/// The channel of messages that state none.
const CHANNEL: &str = "CHAT";

/// A message, by any of the routes.
pub(crate) struct MessageRequest {
    pub(crate) text: String,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) correlation: Option<String>,
    pub(crate) config: RunConfig,
    pub(crate) key: Option<NewKey>,
}

impl MessageRequest {
    /// Whether the run is cancelled if the caller disconnects.
    pub(super) fn cancels(&self) -> bool {
        self.config.on_disconnect == Some(OnDisconnect::Cancel)
    }

    /// The request to the engine.
    pub(super) fn request(
        self,
        service: &Service,
        caller: &Caller,
        traceparent: Option<TraceParent>,
    ) -> Result<RunRequest, Problem> {
        let MessageRequest { text, thread, correlation, config, key } = self;
        if text.trim().is_empty() {
            return Err(Problem::invalid("the message is empty: say what you want"));
        }
        if let Some(correlation) = &correlation {
            is_word("correlation_id", correlation)?;
        }
        agent(caller, config.agent.as_deref())?;
        let mode = mode(caller, config.mode)?;
        let channel = channel(service, config.channel.as_deref())?;
        let narrow = narrow(&config)?;
        let (model, roles) = model(service, config.model.as_deref())?;
        let like = service.app().request(text, &service.chosen());
        let like = like.map_err(|failure| super::internal(&failure.message))?;
        Ok(RunRequest {
            tenant: caller.tenant.clone(),
            thread,
            model,
            roles,
            branch: config.branch,
            mode,
            most: caller.max_mode,
            channel,
            traceparent,
            correlation,
            narrow,
            key,
            on_busy: match config.on_busy {
                None | Some(WhenBusy::Reject) => OnBusy::Reject,
                Some(WhenBusy::Enqueue) => OnBusy::Enqueue,
                Some(WhenBusy::Interrupt) => OnBusy::Interrupt,
            },
            metadata: config.metadata.map_or(Value::Null, Value::Object),
            ..like
        })
    }
}

/// Checks that the caller may use an agent, and that it exists.
pub(crate) fn agent(caller: &Caller, name: Option<&str>) -> Result<(), Problem> {
    let name = name.unwrap_or(AGENT);
    if !caller.agents.is_empty() && !caller.agents.iter().any(|allowed| allowed == name) {
        let detail = format!("this token may use the agents {}, and no other", caller.agents.join(", "));
        return Err(Problem::new(ProblemCode::Forbidden, detail).with("rule", "token.agents"));
    }
    match name {
        AGENT => Ok(()),
        _ => {
            let detail = format!("there is no such agent; there is {AGENT:?}");
            Err(Problem::new(ProblemCode::Forbidden, detail).with("rule", "config.agent"))
        }
    }
}

/// The requested mode, if the caller may use it.
pub(crate) fn mode(caller: &Caller, wanted: Option<Mode>) -> Result<Mode, Problem> {
    // The default is lowered and not refused: the caller did not ask for it.
    let mode = wanted.unwrap_or_else(|| Mode::default().min(caller.max_mode));
    if mode > caller.max_mode {
        let most = caller.max_mode.as_str();
        let detail = format!("this token may use modes up to {most}: send that, or less");
        return Err(Problem::new(ProblemCode::Forbidden, detail).with("rule", "token.max_mode"));
    }
    Ok(mode)
}

/// The channel with this name, in any case.
pub(crate) fn channel(service: &Service, name: Option<&str>) -> Result<String, Problem> {
    let found = service.app().channel(name.unwrap_or(CHANNEL));
    found.map_err(|failure| {
        let hint = failure.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        Problem::invalid(format!("{}{hint}", failure.message))
    })
}

/// The model that answers, with its roles. A caller chooses among the configured ones: any other name might be a file
/// of this machine, or a provider that costs money.
fn model(service: &Service, name: Option<&str>) -> Result<(String, Roles), Problem> {
    let chosen = service.chosen();
    let Some(name) = name else { return Ok((chosen.model.clone(), chosen.roles.clone())) };
    let mut known = chosen.everybody();
    for priced in service.app().config.serving.models.keys() {
        if !known.contains(priced) {
            known.push(priced.clone());
        }
    }
    if !known.iter().any(|known| known == name) {
        let detail = format!("this model is not configured; there are {}", known.join(", "));
        return Err(Problem::new(ProblemCode::Forbidden, detail).with("rule", "config.model"));
    }
    // The settings of the model hold in every role that it answers in.
    let Some(candidate) = chosen.roles.values().flatten().find(|candidate| candidate.model == name) else {
        return Ok((name.to_owned(), Roles::new()));
    };
    let alone = |role: &str| (role.to_owned(), vec![candidate.clone()]);
    Ok((name.to_owned(), chosen.role_names().into_iter().map(alone).collect()))
}

fn narrow(config: &RunConfig) -> Result<Narrow, Problem> {
    let rounds = |limit: u64| (limit - 1) / 2;
    let wrong = |detail: &str| Err(Problem::invalid(detail));
    if config.recursion_limit == Some(0) {
        return wrong("`recursion_limit` is at least 1: n means (n − 1) / 2 rounds");
    }
    if config.max_tokens == Some(0) {
        return wrong("`max_tokens` is at least 1");
    }
    if config.temperature.is_some_and(|it| it < 0.0) {
        return wrong("`temperature` is not below 0");
    }
    if config.timeout_s.is_some_and(|it| it < 0.001) {
        return wrong("`timeout_s` is above 0");
    }
    let iterations = [config.max_iterations, config.recursion_limit.map(rounds)].into_iter().flatten().min();
    Ok(Narrow {
        iterations: iterations.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
        active_ms: config.timeout_s.map(|seconds| (seconds * 1000.0) as u64), // saturates
        answer_tokens: config.max_tokens,
        temperature: config.temperature,
    })
}

/// Whether a text can stand in a header.
fn is_word(field: &str, text: &str) -> Result<(), Problem> {
    if (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    Err(Problem::invalid(format!("`{field}` is 1 to 255 visible ASCII characters")))
}

#[cfg(test)]
mod tests;
