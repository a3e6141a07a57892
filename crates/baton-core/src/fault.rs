//! The failures of a run, as a closed set of codes.

use serde::{Deserialize, Serialize};

/// The codes that events, steps and commands use. The names are part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// A model did not answer in time.
    LlmTimeout,
    /// A model's answer could not be understood.
    LlmInvalidResponse,
    /// A model could not be reached.
    LlmConnection,
    /// A model's server failed.
    LlmServer,
    /// A model's server asked us to slow down.
    LlmRateLimited,
    /// A model's server did not accept our key.
    LlmAuth,
    /// The conversation no longer fits the model.
    ContextTooLong,
    /// The model refused.
    Refused,
    /// A tool failed.
    ToolFailed,
    /// A limit of the run was reached.
    BudgetExceeded,
    /// The run's time was up.
    Deadline,
    /// The run crashed its process too often.
    Poisoned,
    /// The store could not be reached.
    StoreUnavailable,
    /// No plan could be made.
    PlanningFailed,
    /// An action failed.
    ActionFailed,
    /// A verification failed.
    VerificationFailed,
    /// A goal was not reached in its turns.
    MaxTurnsExceeded,
    /// The same call failed again and again.
    NoProgress,
    /// A cost limit was set and a price is not known.
    PriceUnknown,
    /// A fault of ours.
    Internal,
}

impl Code {
    /// All of them.
    pub const ALL: [Code; 20] = [
        Code::LlmTimeout,
        Code::LlmInvalidResponse,
        Code::LlmConnection,
        Code::LlmServer,
        Code::LlmRateLimited,
        Code::LlmAuth,
        Code::ContextTooLong,
        Code::Refused,
        Code::ToolFailed,
        Code::BudgetExceeded,
        Code::Deadline,
        Code::Poisoned,
        Code::StoreUnavailable,
        Code::PlanningFailed,
        Code::ActionFailed,
        Code::VerificationFailed,
        Code::MaxTurnsExceeded,
        Code::NoProgress,
        Code::PriceUnknown,
        Code::Internal,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::LlmTimeout => "llm_timeout",
            Code::LlmInvalidResponse => "llm_invalid_response",
            Code::LlmConnection => "llm_connection",
            Code::LlmServer => "llm_server",
            Code::LlmRateLimited => "llm_rate_limited",
            Code::LlmAuth => "llm_auth",
            Code::ContextTooLong => "context_too_long",
            Code::Refused => "refused",
            Code::ToolFailed => "tool_failed",
            Code::BudgetExceeded => "budget_exceeded",
            Code::Deadline => "deadline",
            Code::Poisoned => "poisoned",
            Code::StoreUnavailable => "store_unavailable",
            Code::PlanningFailed => "planning_failed",
            Code::ActionFailed => "action_failed",
            Code::VerificationFailed => "verification_failed",
            Code::MaxTurnsExceeded => "max_turns_exceeded",
            Code::NoProgress => "no_progress",
            Code::PriceUnknown => "price_unknown",
            Code::Internal => "internal",
        }
    }
}

/// A failure, with the decision about it as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The code of the failure.
    pub code: Code,
    /// The failure and its remedy, for a user.
    pub message: String,
    /// Milliseconds after which the same request may be tried again; absent: do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// How many tokens would have fitted, where the model that refused a prompt as too long stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits_tokens: Option<u64>,
    /// Whether the request was never sent: such a model call costs and counts nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsent: bool,
}

impl Fault {
    /// A failure that is not worth another try.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Fault { code, message: message.into(), retry_after_ms: None, fits_tokens: None, unsent: false }
    }

    /// The failure and its remedy in words for the user.
    pub fn for_people(&self) -> String {
        let another = match self.retry_after_ms.unwrap_or_default().div_ceil(1000) {
            0..=2 => "Ask again in a moment, or choose another model.".to_owned(),
            seconds => format!("Ask again in {seconds} s, or choose another model."),
        };
        let (what, helps) = match self.code {
            Code::LlmTimeout => {
                ("The model did not answer in time: ", "Ask again later, or choose another model.")
            }
            Code::LlmInvalidResponse => (
                "The model's answer could not be understood: ",
                "Ask again, perhaps in other words, or choose another model.",
            ),
            Code::LlmConnection => (
                "The connection to the model failed: ",
                "`baton models test` shows which models answer; choose another one with --model.",
            ),
            Code::LlmServer | Code::LlmRateLimited => ("", another.as_str()),
            Code::LlmAuth => {
                ("", "Check the key and the account; `baton doctor` says where the key is read from.")
            }
            Code::ContextTooLong => (
                "",
                "Begin a new thread, fork from an earlier point, or choose a model with a larger window.",
            ),
            Code::Refused => ("The model refused: ", "Ask in another way, or ask another model."),
            _ => return self.message.clone(),
        };
        let mut said = format!("{what}{}", self.message.trim());
        if let Some(first) = said.get(..1).map(str::to_ascii_uppercase) {
            said.replace_range(..1, &first);
        }
        let ends = said.ends_with(['.', '?', '!']);
        format!("{said}{} {helps}", if ends { "" } else { "." })
    }

    /// The same failure, of a request that was never sent.
    pub fn unsent(mut self) -> Self {
        self.unsent = true;
        self
    }

    /// The same failure, worth another try after a while.
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }
}

/// A text from another server with the value of `Basic` credentials removed, so that it may be shown. A proxy
/// that refuses a request may repeat its headers, and with them the password that we sent it.
pub fn without_credentials(text: &str) -> String {
    const SCHEME: &str = "basic ";
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.to_ascii_lowercase().find(SCHEME) {
        let (before, after) = rest.split_at(at + SCHEME.len());
        let word = &after[..after.find(|c| !is_part(c)).unwrap_or(after.len())];
        // Words of a sentence have no such characters after their first.
        let tail = word.trim_end_matches('=').get(1..).unwrap_or_default();
        let is_encoded = word.len() >= 4 && tail.contains(|c: char| !c.is_ascii_lowercase());
        out.push_str(before);
        if is_encoded {
            out.push_str("[redacted]");
        }
        rest = &after[if is_encoded { word.len() } else { 0 }..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Code; 20] = Code::ALL;

    #[test]
    fn names_on_the_wire_are_the_serialized_ones() {
        for code in ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn what_a_model_did_wrong_is_told_with_what_helps() {
        let told = |code| Fault::new(code, "it said so").for_people();
        let expected = [
            "The model did not answer in time: it said so. Ask again later, or choose another model.",
            "The model's answer could not be understood: it said so. Ask again, perhaps in other words, or choose another model.",
            "The connection to the model failed: it said so. `baton models test` shows which models answer; choose another one with --model.",
            "It said so. Ask again in a moment, or choose another model.",
            "It said so. Ask again in a moment, or choose another model.",
            "It said so. Check the key and the account; `baton doctor` says where the key is read from.",
            "It said so. Begin a new thread, fork from an earlier point, or choose a model with a larger window.",
            "The model refused: it said so. Ask in another way, or ask another model.",
        ];
        assert_eq!(ALL[..8].iter().map(|code| told(*code)).collect::<Vec<_>>(), expected);
        for code in &ALL[8..] {
            assert_eq!(told(*code), "it said so", "what is ours is said as it is");
        }
        let later = Fault::new(Code::LlmRateLimited, "it said so").retry_after_ms(3_599_001).for_people();
        assert_eq!(later, "It said so. Ask again in 3600 s, or choose another model.");
    }

    #[test]
    fn whatever_a_server_said_is_a_sentence() {
        let told = |message: &str| Fault::new(Code::LlmServer, message).for_people();
        let helps = "Ask again in a moment, or choose another model.";
        for (message, said) in
            [("busy.", "Busy."), ("why now?", "Why now?"), ("Stop!", "Stop!"), ("überlastet", "überlastet.")]
        {
            assert_eq!(told(message), format!("{said} {helps}"));
        }
    }

    #[test]
    fn what_is_not_known_of_a_failure_is_not_written() {
        let plain = serde_json::json!({"code": "llm_server", "message": "down"});
        assert_eq!(serde_json::to_value(Fault::new(Code::LlmServer, "down")).unwrap(), plain);
        let whole =
            Fault { retry_after_ms: Some(5), fits_tokens: Some(9), ..Fault::new(Code::LlmServer, "down") };
        let stored = serde_json::to_value(&whole).unwrap();
        assert_eq!(
            stored,
            serde_json::json!({"code": "llm_server", "message": "down", "retry_after_ms": 5, "fits_tokens": 9})
        );
        assert_eq!(serde_json::from_value::<Fault>(stored).unwrap(), whole);
    }

    #[test]
    fn what_basic_credentials_carry_is_not_shown() {
        let table = [
            (
                "proxy-authorization: Basic bWU6cGFzcw==; host: h",
                "proxy-authorization: Basic [redacted]; host: h",
            ),
            ("basic bWU6cGFzcw==, BASIC bWU6cGFz…", "basic [redacted], BASIC [redacted]…"),
            ("Basic realm=\"models\"", "Basic realm=\"models\""),
            ("a basic question of Basic research", "a basic question of Basic research"),
            ("Basic ", "Basic "),
            ("größe basic ü", "größe basic ü"),
        ];
        for (text, shown) in table {
            assert_eq!(without_credentials(text), shown, "{text}");
        }
    }
}
