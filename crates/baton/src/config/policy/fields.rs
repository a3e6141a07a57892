//! The fields of the policy's rows in `baton.toml`, by section.
//!
//! All rows have the same fields, with the same meaning, but for a few that only a channel has.

use super::super::named::{FieldSpec, Section};
use super::super::value::ValueKind;

const MODE: &str = "what is built in for the mode, see docs/policy.md";
const CHANNEL: &str = "what is built in for the channel, see docs/policy.md";
const NO_LIMIT: &str = "no limit";
const DAY: u64 = 86_400;

macro_rules! field {
    ($key:literal, $name:literal, $kind:expr, $default:expr, $example:literal, $doc:literal) => {
        FieldSpec {
            key: concat!($key, ".*.", $name),
            kind: $kind,
            default: $default,
            env: None,
            doc: $doc,
            example: $example,
        }
    };
}

/// The list of fields below a key: first its own, then those that every row has.
macro_rules! fields {
    ($key:literal $(, $name:literal, $kind:expr, $default:expr, $example:literal, $doc:literal)* $(,)?) => {
        &[
            $(field!($key, $name, $kind, $default, $example, $doc),)*
            field!($key, "roles", ValueKind::Names, "all roles of the channel", "[\"router\", \"reasoning\"]",
                "The roles that may be asked. Both the channel and the mode have to allow one."),
            field!($key, "tools", ValueKind::Names, "what is built in, see docs/policy.md",
                "[\"@side_effect_free\", \"read_*\"]",
                "The tools that may be used: names, patterns with `*`, or `@side_effect_free`, `@built_in`, `@configured`. Both the channel and the mode have to allow one. A mode's list is the whole of it, and has to have what those of stricter modes have."),
            field!($key, "approve", ValueKind::Names, "none", "[\"read_file\"]",
                "The tools whose calls a person is asked about first, written as `tools` are. What a looser mode asks about, a stricter one asks about, too."),
            field!($key, "rounds", ValueKind::Whole(1, 1000), MODE, "2",
                "Rounds of one model call with tools, and the tools that it asked for. The closing answer is not counted."),
            field!($key, "time_s", ValueKind::Whole(1, 365 * DAY), MODE, "60",
                "How long a run may take, in seconds. Waiting for people does not count."),
            field!($key, "tokens", ValueKind::Whole(1, 1_000_000_000_000), NO_LIMIT, "50000",
                "How many tokens a run may read and write."),
            field!($key, "answer_tokens", ValueKind::Whole(1, 10_000_000), "4096, or `limits.answer_tokens`", "1024",
                "How many tokens one answer of a model may have."),
            field!($key, "tool_calls", ValueKind::Whole(0, 1_000_000), NO_LIMIT, "10",
                "How many tool calls a run may start."),
            field!($key, "cost_usd", ValueKind::Decimal, NO_LIMIT, "0.1",
                "What a run may cost, in US dollars."),
            field!($key, "temperature", ValueKind::UpTo(2.0), "what the models have", "0.7",
                "The highest temperature; also that of models of which nothing else is said."),
            field!($key, "self_check", ValueKind::OneOf(&["never", "after_tools", "always"]), MODE, "\"after_tools\"",
                "Which answers are checked against the question and the results of tools before they count."),
            field!($key, "on_unknown", ValueKind::OneOf(&["tell_model", "ask_person"]), MODE, "\"ask_person\"",
                "What is done about a call of which nobody knows whether it took effect."),
            field!($key, "untrusted_egress", ValueKind::OneOf(&["allow", "ask"]), MODE, "\"ask\"",
                "What is done about calls that send something out, once untrusted content or private data is on the branch."),
            field!($key, "patience_s", ValueKind::Whole(1, 365 * DAY), "86400, or `policy.patience_s`", "3600",
                "How long a person has to answer a question or to decide about a call, in seconds."),
        ]
    };
}

/// The section of a mode's rows on all channels.
pub(crate) const MODES: Section = Section {
    key: "policy.modes",
    is_list: false,
    example: "CONSERVATIVE",
    doc: "What a mode allows: `CONSERVATIVE`, `MODERATE` or `EXPLORATORY`, from strict to loose. A looser mode is never stricter in anything. `baton policy show` prints the whole table.",
    fields: fields!["policy.modes"],
};

/// The section of a channel's rows in all modes.
pub(crate) const CHANNELS: Section = Section {
    key: "policy.channels",
    is_list: false,
    example: "SUPPORT",
    doc: "What a channel allows: `CHAT`, `CODE_TASK`, `SYSTEM_HEALTH`, or one of your own, in capital letters. What it says comes before what a mode says; of roles and tools, both have to allow one.",
    fields: fields![
        "policy.channels",
        "default_role",
        ValueKind::Text,
        CHANNEL,
        "\"auto\"",
        "Who answers: a role, or `auto`, by the question.",
        "after_tools",
        ValueKind::Text,
        CHANNEL,
        "\"reasoning\"",
        "The role that answers once tools have run.",
        "tool_rule",
        ValueKind::OneOf(&["auto", "required", "none"]),
        CHANNEL,
        "\"auto\"",
        "How tools are used: `auto`, whoever is asked may call them; `required`, the router chooses one and the answer is written without them; `none`.",
        "first_tool",
        ValueKind::Text,
        CHANNEL,
        "\"system_health\"",
        "The tool that runs where one is required and none was chosen. `required` needs it.",
        "search_first",
        ValueKind::Text,
        CHANNEL,
        "\"web_search\"",
        "The tool that runs first if the request asks to look something up. Empty: none.",
    ],
};

/// The section of one mode's row on one channel.
pub(crate) const CELLS: Section = Section {
    key: "policy.cells",
    is_list: false,
    example: "CHAT-CONSERVATIVE",
    doc: "What a mode allows on one channel, named `CHANNEL-MODE`. What it says comes before what the channel and the mode say.",
    fields: fields![
        "policy.cells",
        "default_role",
        ValueKind::Text,
        CHANNEL,
        "\"router\"",
        "Who answers: a role, or `auto`, by the question.",
        "after_tools",
        ValueKind::Text,
        CHANNEL,
        "\"reasoning\"",
        "The role that answers once tools have run.",
    ],
};
