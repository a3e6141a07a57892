//! The one table of the sections with chosen names: providers, roles, prices and the policy's rows.
//!
//! Reading the file, `baton config show`, the file that `baton init` writes and `docs/configuration.md` all follow it,
//! as they follow the table of fixed settings. The values are checked and typed in [`super::serving`] and
//! [`super::policy`].

use super::policy::fields;
use super::value::ValueKind;

/// A section with chosen names.
#[derive(Debug, PartialEq)]
pub(crate) struct Section {
    /// Its key in `baton.toml`.
    pub(crate) key: &'static str,
    /// Whether a name holds a list of tables instead of one.
    pub(crate) is_list: bool,
    /// An example of a chosen name.
    pub(crate) example: &'static str,
    /// Its description.
    pub(crate) doc: &'static str,
    /// The fields of its tables.
    pub(crate) fields: &'static [FieldSpec],
}

/// One field of a section's table.
#[derive(Debug, PartialEq)]
pub(crate) struct FieldSpec {
    /// Its key, with `*` for the name.
    pub(crate) key: &'static str,
    /// The kind of its value.
    pub(crate) kind: ValueKind,
    /// The default, in words or as TOML; empty: the field is required.
    pub(crate) default: &'static str,
    /// The environment variable that sets it, and the name of the table that it sets it in.
    pub(crate) env: Option<(&'static str, &'static str)>,
    /// Its description.
    pub(crate) doc: &'static str,
    /// An example value, as TOML.
    pub(crate) example: &'static str,
}

impl Section {
    /// The head of one of its tables, as TOML.
    pub(crate) fn head(&self, name: &str) -> String {
        let name = quoted(name);
        if self.is_list { format!("[[{}.{name}]]", self.key) } else { format!("[{}.{name}]", self.key) }
    }

    /// A field by its own name.
    pub(crate) fn field(&self, name: &str) -> Option<&'static FieldSpec> {
        self.fields.iter().find(|field| field.name() == name)
    }
}

impl FieldSpec {
    /// Its own name.
    pub(crate) fn name(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }
}

/// A name as a TOML key.
pub(crate) fn quoted(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { format!("{name:?}") }
}

/// A section by its key.
pub(crate) fn section(key: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.key == key)
}

pub(super) const fn field(
    key: &'static str,
    kind: ValueKind,
    default: &'static str,
    example: &'static str,
    doc: &'static str,
) -> FieldSpec {
    FieldSpec { key, kind, default, env: None, doc, example }
}

/// The names of the wire formats.
const APIS: ValueKind = ValueKind::OneOf(&["responses", "chat_completions", "ollama", "anthropic"]);
const SECONDS: ValueKind = ValueKind::Whole(1, 86_400);
const NOT_SET: &str = "not set";
const FOUND_OUT: &str = "not set: found out once, by asking";

/// All such sections, in the order of the documentation.
pub(crate) static SECTIONS: &[Section] = &[
    Section {
        key: "providers",
        is_list: false,
        example: "lab",
        doc: "Who serves models. `ollama`, `openai` and `anthropic` are there by themselves and may be changed here; any other server that speaks one of their formats is added under a name of your own.",
        fields: &[
            FieldSpec {
                key: "providers.*.base_url",
                kind: ValueKind::Text,
                default: "for `ollama`, `openai` and `anthropic` their usual address; otherwise it has to be said",
                env: Some(("ollama", "OLLAMA_BASE_URL")),
                doc: "Where it is.",
                example: "\"http://10.0.0.5:8080/v1\"",
            },
            field("providers.*.api", APIS, FOUND_OUT, "\"chat_completions\"", "What it speaks."),
            field(
                "providers.*.key_env",
                ValueKind::Variable,
                "at their usual address `OPENAI_API_KEY` for `openai`, `ANTHROPIC_API_KEY` for `anthropic`; otherwise not set: no key",
                "\"LAB_KEY\"",
                "The environment variable that holds its key. The key itself never stands here.",
            ),
            field(
                "providers.*.key_file",
                ValueKind::KeyFile,
                NOT_SET,
                "\"lab.key\"",
                "The file that holds its key, instead; from the folder of this file, if it is no whole path.",
            ),
        ],
    },
    Section {
        key: "roles",
        is_list: true,
        example: "reasoning",
        doc: "Who answers in a role: `router` (quick and small), `reasoning` (the one that thinks), `coding`, or one of your own. The first is asked; the others stand in for it when it fails.",
        fields: &[
            field(
                "roles.*.model",
                ValueKind::Text,
                "",
                "\"ollama/qwen3:8b\"",
                "Which model, as `provider/name`.",
            ),
            field(
                "roles.*.temperature",
                ValueKind::Decimal,
                "what its provider has",
                "0.2",
                "How freely it chooses its words.",
            ),
            field(
                "roles.*.max_tokens",
                ValueKind::Whole(1, 10_000_000),
                "`limits.answer_tokens`",
                "2048",
                "How many tokens one answer may have.",
            ),
            field(
                "roles.*.context_window",
                ValueKind::Whole(256, 100_000_000),
                "not known",
                "32768",
                "How many tokens it reads and writes at most in one call.",
            ),
            field(
                "roles.*.max_concurrency",
                ValueKind::Whole(1, 10_000),
                "no limit",
                "2",
                "How many calls it is sent at the same time; more wait for their turn.",
            ),
            field("roles.*.connect_s", SECONDS, "10", "5", "How long connecting may take, in seconds."),
            field(
                "roles.*.first_byte_s",
                SECONDS,
                "120",
                "60",
                "How long it may be silent before it begins to answer, in seconds.",
            ),
            field(
                "roles.*.idle_s",
                SECONDS,
                "60",
                "30",
                "How long it may be silent in the middle of an answer, in seconds.",
            ),
            field("roles.*.total_s", SECONDS, "900", "300", "How long a whole call may take, in seconds."),
            field(
                "roles.*.api",
                APIS,
                "what its provider speaks",
                "\"responses\"",
                "What is spoken with this model, where that is not what its provider speaks.",
            ),
            field(
                "roles.*.think_tags",
                ValueKind::Switch,
                "false",
                "true",
                "Whether it thinks in `<think>…</think>` at the beginning of its text.",
            ),
            field(
                "roles.*.tool_call_tags",
                ValueKind::Switch,
                "false",
                "true",
                "Whether it writes calls as `<tool_call>{…}</tool_call>` in its text.",
            ),
        ],
    },
    Section {
        key: "prices",
        is_list: false,
        example: "openai/gpt-5-mini",
        doc: "What a model costs, by its name as `provider/name`. Models on this machine cost nothing; of all others, Baton knows only what stands here.",
        fields: &[
            field(
                "prices.*.input",
                ValueKind::Decimal,
                "",
                "0.25",
                "US dollars for a million tokens that it reads.",
            ),
            field(
                "prices.*.output",
                ValueKind::Decimal,
                "",
                "2.0",
                "US dollars for a million tokens that it writes.",
            ),
        ],
    },
    fields::MODES,
    fields::CHANNELS,
    fields::CELLS,
    super::web::TOOLS,
    super::service::TOKENS,
];
