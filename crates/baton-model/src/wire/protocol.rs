//! The constants of each wire format in one table: paths, headers, and the shape of its list of models.
//!
//! The codecs convert bodies; everything else that differs between formats stands here, so that neither
//! [`crate::Endpoint`] nor the HTTP path decides by the name of a format.

use super::Wire;

/// How the paths of a format are joined to a base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathBase {
    /// Beside `v1`, not below it: Ollama's own paths.
    Root,
    /// Below the path of the base, and below `v1` where the base has none.
    BaseOrV1,
    /// Always below `v1`: the base of Anthropic's API is usually written without it.
    V1,
}

/// The constants of one wire format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WireProtocol {
    /// The name in `baton.toml` and in stored reasoning.
    pub(crate) name: &'static str,
    /// The provider whose name implies this format.
    pub(crate) provider: Option<&'static str>,
    pub(crate) path_base: PathBase,
    /// The path to which requests for an answer are posted.
    pub(crate) answer_path: &'static str,
    /// The path of the list of models.
    pub(crate) models_path: &'static str,
    /// The field of that list that holds its items, and the field of an item that holds a model's name.
    pub(crate) models_fields: (&'static str, &'static str),
    pub(crate) accept: &'static str,
    /// The header that carries the key, and the text before it there.
    pub(crate) key_header: (&'static str, &'static str),
    /// The header that names the version of the API that the codec speaks.
    pub(crate) version_header: Option<(&'static str, &'static str)>,
    /// Whether connections to a server on this machine are kept. A local server may close a connection after its
    /// answer although it promised to keep it (llama.cpp's does), and a request that crosses that close is lost.
    /// Ollama keeps its promise.
    pub(crate) keeps_local_connections: bool,
}

const EVENT_STREAM: &str = "text/event-stream, application/json";

const CHAT_COMPLETIONS: WireProtocol = WireProtocol {
    name: "chat_completions",
    provider: None,
    path_base: PathBase::BaseOrV1,
    answer_path: "/chat/completions",
    models_path: "/models",
    models_fields: ("data", "id"),
    accept: EVENT_STREAM,
    key_header: ("authorization", "Bearer "),
    version_header: None,
    keeps_local_connections: false,
};

const RESPONSES: WireProtocol = WireProtocol {
    name: "responses",
    provider: Some("openai"),
    answer_path: "/responses",
    ..CHAT_COMPLETIONS
};

const OLLAMA: WireProtocol = WireProtocol {
    name: "ollama",
    provider: Some("ollama"),
    path_base: PathBase::Root,
    answer_path: "/api/chat",
    models_path: "/api/tags",
    models_fields: ("models", "name"),
    accept: "application/x-ndjson, application/json",
    keeps_local_connections: true,
    ..CHAT_COMPLETIONS
};

const ANTHROPIC: WireProtocol = WireProtocol {
    name: "anthropic",
    provider: Some("anthropic"),
    path_base: PathBase::V1,
    answer_path: "/messages",
    key_header: ("x-api-key", ""),
    version_header: Some(("anthropic-version", "2023-06-01")),
    ..CHAT_COMPLETIONS
};

impl Wire {
    /// The constants of this format.
    pub(crate) const fn protocol(self) -> &'static WireProtocol {
        match self {
            Wire::Ollama => &OLLAMA,
            Wire::ChatCompletions => &CHAT_COMPLETIONS,
            Wire::Responses => &RESPONSES,
            Wire::Anthropic => &ANTHROPIC,
        }
    }

    /// The format that a provider's name implies.
    pub(crate) fn of_provider(name: &str) -> Option<Wire> {
        Wire::ALL.into_iter().find(|wire| wire.protocol().provider == Some(name))
    }
}
