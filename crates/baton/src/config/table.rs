//! The one table of settings.

mod around;
mod service;

use std::sync::LazyLock;

use super::value::{Value, ValueKind};

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SettingSpec {
    /// Its name in `baton.toml`, with its section.
    pub(crate) key: &'static str,
    /// The kind of its value.
    pub(crate) kind: ValueKind,
    /// The default, as TOML; empty: not set.
    pub(crate) default: &'static str,
    /// The environment variable that sets it.
    pub(crate) env: Option<&'static str>,
    /// The flag that sets it.
    pub(crate) flag: Option<&'static str>,
    /// Its description.
    pub(crate) doc: &'static str,
    /// An example value, as TOML.
    pub(crate) example: &'static str,
}

impl SettingSpec {
    /// Whether it is a path that stands outside the file.
    pub(crate) fn is_place(&self) -> bool {
        self.kind == ValueKind::Place
    }

    /// The section of the file that it stands in; empty for the top.
    pub(crate) fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// Its name within its section.
    pub(crate) fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }

    /// The value of the default.
    pub(crate) fn default_value(&self) -> Option<Value> {
        parsed(self.kind, self.default)
    }
}

/// A value of the table. A test checks that every one of them can be read.
pub(super) fn parsed(kind: ValueKind, text: &str) -> Option<Value> {
    let value = toml::de::DeValue::parse(text).ok()?;
    super::value::from_toml(kind, value.get_ref()).ok()
}

/// A setting by its key.
pub(crate) fn setting(key: &str) -> Option<&'static SettingSpec> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

const fn place(key: &'static str, flag: &'static str, env: &'static str, doc: &'static str) -> SettingSpec {
    SettingSpec {
        key,
        kind: ValueKind::Place,
        default: "",
        env: Some(env),
        flag: Some(flag),
        doc,
        example: "",
    }
}

const fn plain(
    key: &'static str,
    kind: ValueKind,
    default: &'static str,
    example: &'static str,
    doc: &'static str,
) -> SettingSpec {
    SettingSpec { key, kind, default, env: None, flag: None, doc, example }
}

const DAY: u64 = 86_400;
const MANY: u64 = 1_000_000_000_000;

/// All settings, in the order of the documentation.
pub(crate) static SETTINGS: LazyLock<Vec<SettingSpec>> =
    LazyLock::new(|| GENERAL.iter().chain(around::AROUND).chain(service::SERVICE).copied().collect());

const GENERAL: &[SettingSpec] = &[
    place(
        "config",
        "--config",
        "BATON_CONFIG",
        "The file that these settings are read from. Otherwise: `baton.toml` in the platform's configuration folder.",
    ),
    place(
        "data",
        "--data",
        "BATON_DATA",
        "The folder in which everything is kept. Otherwise: the platform's data folder.",
    ),
    SettingSpec {
        key: "model",
        kind: ValueKind::Text,
        default: "",
        env: Some("BATON_MODEL"),
        flag: Some("--model"),
        doc: "Which model answers: `ollama/llama3.2:3b`, `openai/…`, `anthropic/…` or a provider of your own; `offline` (built in, no language model) or `scripted/FILE` (plays a script). As a flag or a variable it answers in every role; in the file, in roles without a list. Not set: the first model that is found, see docs/models.md.",
        example: "\"ollama/llama3.2:3b\"",
    },
    plain(
        "system",
        ValueKind::Text,
        "\"You are a careful assistant. Look things up with your tools instead of guessing, and say what you could not find out.\"",
        "\"Answer in one sentence.\"",
        "The agent's instructions, which every model call begins with.",
    ),
    plain(
        "behavior_template",
        ValueKind::Text,
        "",
        "\"support.md\"",
        "A minijinja template for the instructions, in place of `system`. One word is a file in `templates/` beside this file; anything with a space or a `{` is the template itself.",
    ),
    plain(
        "last_n",
        ValueKind::Whole(1, 100_000),
        "",
        "40",
        "How many entries of a thread the model sees. Not set: all of them.",
    ),
    plain(
        "render.policy",
        ValueKind::OneOf(&["full", "last_n", "token_budget", "summary"]),
        "\"token_budget\"",
        "\"summary\"",
        "How much of a thread the model sees: `full` all of it, `last_n` the last so many entries (see `last_n`), `token_budget` what fits its context window, `summary` the same with a summary of the rest.",
    ),
    plain(
        "render.exclude",
        ValueKind::Names,
        "[]",
        "[\"ToolCall\"]",
        "Types of entries that the model does not see, beside those that it never sees. A call and its result go together.",
    ),
    plain(
        "policy.tools",
        ValueKind::Names,
        "",
        "[\"clock\", \"read_*\"]",
        "The tools that agents may use at all: names, patterns with `*`, or `@side_effect_free`, `@built_in`, `@configured`. Not set: what modes and channels allow, see docs/policy.md.",
    ),
    plain(
        "policy.approve",
        ValueKind::Names,
        "",
        "[\"read_file\", \"system_*\"]",
        "The tools that run only when a person has approved the call, in every mode and channel, written as `tools` are. Not set: what modes and channels say.",
    ),
    plain(
        "policy.patience_s",
        ValueKind::Whole(1, 365 * DAY),
        "",
        "3600",
        "How long a person has at most to answer a question or to decide about a call, in seconds. Not set: what modes and channels say, 86400.",
    ),
    plain(
        "limits.iterations",
        ValueKind::Whole(1, 1000),
        "",
        "4",
        "The most rounds of a run: one model call with tools, and the tools that it asked for. Not set: what modes and channels say, 2, 3 or 8.",
    ),
    plain(
        "limits.active_s",
        ValueKind::Whole(1, 365 * DAY),
        "",
        "120",
        "How long a run may take at most, in seconds. Waiting for people does not count. Not set: what modes and channels say, 60, 120 or 600.",
    ),
    plain(
        "limits.tokens",
        ValueKind::Whole(1, MANY),
        "",
        "200000",
        "How many tokens a run may read and write. Not set: no limit.",
    ),
    plain(
        "limits.tool_calls",
        ValueKind::Whole(0, 1_000_000),
        "",
        "20",
        "How many tool calls a run may start. Not set: no limit.",
    ),
    plain(
        "limits.cost_usd",
        ValueKind::Decimal,
        "",
        "0.5",
        "What a run may cost, in US dollars. Not set: no limit.",
    ),
    plain(
        "limits.answer_tokens",
        ValueKind::Whole(1, 10_000_000),
        "",
        "1024",
        "How many tokens one answer of a model may have at most. Not set: what modes and channels say, 4096.",
    ),
    plain(
        "files.roots",
        ValueKind::Names,
        "[]",
        "[\"notes\"]",
        "The folders that a service's file tools may read. `ask` and `chat` read the current folder instead.",
    ),
    plain(
        "files.allow",
        ValueKind::Names,
        "[]",
        "[\".env.example\"]",
        "Files that file tools show although such files hold secrets by convention (`.env*`, `*.pem`, `.ssh` and others), as names or paths with `*`. One of Baton's own is named by a path that begins with `/`.",
    ),
    plain(
        "search.provider",
        ValueKind::OneOf(super::web::SearchServiceKind::NAMES),
        "",
        "\"searxng\"",
        "Who answers searches: `searxng` (an instance of your own), `brave` or `tavily`. Not set: there is no `web_search`. See docs/web.md.",
    ),
    plain(
        "search.url",
        ValueKind::Text,
        "",
        "\"http://127.0.0.1:8888\"",
        "Where it is. It has to be said for `searxng`; the others have their usual address.",
    ),
    plain(
        "search.key_env",
        ValueKind::Variable,
        "",
        "\"SEARCH_KEY\"",
        "The environment variable that holds its key. The key itself never stands here. Not set: at their usual address `BRAVE_API_KEY` for `brave`, `TAVILY_API_KEY` for `tavily`.",
    ),
    plain(
        "search.key_file",
        ValueKind::KeyFile,
        "",
        "\"search.key\"",
        "The file that holds its key, instead; from the folder of this file, if it is no whole path.",
    ),
    plain(
        "egress.allow",
        ValueKind::Names,
        "[]",
        "[\"wiki.example.com:8080\"]",
        "What `fetch_url` may visit beyond public addresses over https: hosts with their port. An exception by name never leads to metadata services and the like. See docs/web.md.",
    ),
    plain(
        "egress.timeout_s",
        ValueKind::Whole(1, 600),
        "10",
        "30",
        "How long a visit of `fetch_url` may take, with redirects, in seconds.",
    ),
    plain(
        "egress.max_bytes",
        ValueKind::Whole(1024, 64 << 20),
        "2097152",
        "524288",
        "How much of a page `fetch_url` reads, in bytes.",
    ),
    SettingSpec {
        key: "log.level",
        kind: ValueKind::Level,
        default: "\"warn\"",
        env: Some("LOG_LEVEL"),
        flag: Some("-v"),
        doc: "What is logged to standard error: `off`, `error`, `warn`, `info`, `debug` or `trace`. `-v` means info, `-vv` debug. `baton serve` logs `info` if nothing is said.",
        example: "\"info\"",
    },
    plain(
        "log.format",
        ValueKind::OneOf(&["text", "json"]),
        "",
        "\"json\"",
        "How it is logged: as lines for people, or as one JSON object a line. Not set: `json` for `baton serve` unless a terminal reads it, `text` otherwise.",
    ),
    SettingSpec {
        key: "telemetry.endpoint",
        kind: ValueKind::Text,
        default: "",
        env: Some("OTEL_EXPORTER_OTLP_ENDPOINT"),
        flag: None,
        doc: "The collector that the spans of runs are sent to, over OTLP/HTTP; `/v1/traces` is added. Not set: nothing is sent. See docs/telemetry.md.",
        example: "\"http://127.0.0.1:4318\"",
    },
    plain(
        "telemetry.headers_env",
        ValueKind::Variable,
        "\"OTEL_EXPORTER_OTLP_HEADERS\"",
        "\"COLLECTOR_HEADERS\"",
        "The environment variable with headers for the collector, as `name=value,name=value`.",
    ),
    SettingSpec {
        key: "telemetry.service_name",
        kind: ValueKind::Text,
        default: "\"baton\"",
        env: Some("OTEL_SERVICE_NAME"),
        flag: None,
        doc: "What this Baton is called in traces.",
        example: "\"support-agent\"",
    },
    plain(
        "telemetry.content",
        ValueKind::Switch,
        "false",
        "true",
        "Whether spans hold what was said: instructions, messages, arguments and results of tools.",
    ),
    plain(
        "telemetry.propagate",
        ValueKind::Switch,
        "false",
        "true",
        "Whether models are told in which span they are asked, by the header `traceparent`.",
    ),
    plain(
        "engine.effects_at_once",
        ValueKind::Whole(1, 1024),
        "8",
        "4",
        "How many calls of one run are under way at the same time.",
    ),
    plain(
        "engine.grace_s",
        ValueKind::Whole(0, 3600),
        "10",
        "3",
        "How long calls that were told to stop are waited for, in seconds.",
    ),
    plain(
        "engine.shutdown_s",
        ValueKind::Whole(0, 3600),
        "8",
        "3",
        "How long a process that goes down waits for what is under way before it lets go of its runs, in seconds.",
    ),
    plain(
        "engine.flush_ms",
        ValueKind::Whole(1, 60_000),
        "2000",
        "500",
        "How old shown text may get before it is stored, in milliseconds.",
    ),
    plain(
        "engine.flush_watched_ms",
        ValueKind::Whole(1, 60_000),
        "200",
        "100",
        "The same, while another process watches the run.",
    ),
    plain(
        "engine.flush_bytes",
        ValueKind::Whole(1, 16 << 20),
        "65536",
        "16384",
        "How much shown text may gather before it is stored, in bytes.",
    ),
    plain(
        "engine.poll_ms",
        ValueKind::Whole(1, 60_000),
        "100",
        "50",
        "How often other processes' messages and events are looked for, in milliseconds.",
    ),
    plain(
        "engine.adopt_ms",
        ValueKind::Whole(1, 3_600_000),
        "500",
        "1000",
        "How often runs that nobody drives are looked for, in milliseconds.",
    ),
    plain(
        "engine.store_patience_s",
        ValueKind::Whole(0, 3600),
        "15",
        "60",
        "How long a store that does not answer is tried, in seconds.",
    ),
    plain(
        "engine.most_attempts",
        ValueKind::Whole(1, 1000),
        "3",
        "5",
        "How often a run may bring down its process, which drives it alone after two other times, before it is given up.",
    ),
];
