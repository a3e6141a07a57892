//! The built-in providers, and the model that is asked where only a key is set.
//!
//! In builds for tests, two variables replace values that would make a test depend on its machine: the address of
//! Ollama, and the deadlines.

use std::time::Duration;

use baton_model::wire::Wire;

/// A provider that needs no table in `baton.toml`.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    /// The part before the `/` in the names of its models.
    pub(crate) name: &'static str,
    /// Its usual address.
    pub(crate) base_url: &'static str,
    /// Its wire format.
    pub(crate) api: Wire,
    /// The usual variable of its key.
    pub(crate) key_env: Option<&'static str>,
    /// The model that is asked where nothing else is configured.
    pub(crate) model: &'static str,
}

/// All of them, in the order in which they are looked for.
pub(crate) const PROVIDERS: [BuiltIn; 3] = [
    BuiltIn {
        name: "ollama",
        base_url: "http://localhost:11434",
        api: Wire::Ollama,
        key_env: None,
        model: "llama3.2:3b",
    },
    BuiltIn {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        api: Wire::Responses,
        key_env: Some("OPENAI_API_KEY"),
        model: "gpt-5-mini",
    },
    BuiltIn {
        name: "anthropic",
        base_url: "https://api.anthropic.com",
        api: Wire::Anthropic,
        key_env: Some("ANTHROPIC_API_KEY"),
        model: "claude-sonnet-4-5",
    },
];

/// The variable that replaces Ollama's usual address, so that no test depends on the programs of this machine.
#[cfg(feature = "failpoints")]
const MOVED: &str = "BATON_TEST_OLLAMA";

/// The variable that replaces the deadlines, so that no test depends on how busy this machine is.
#[cfg(feature = "failpoints")]
const WAITED: &str = "BATON_TEST_PATIENCE_MS";

/// The default address of Ollama.
pub(crate) fn ollama_address() -> String {
    #[cfg(feature = "failpoints")]
    if let Ok(address) = std::env::var(MOVED) {
        return address;
    }
    PROVIDERS[0].base_url.to_owned()
}

/// The deadline of a request to a server that may not be there.
pub(crate) fn patience(usual: Duration) -> Duration {
    #[cfg(feature = "failpoints")]
    if let Some(ms) = std::env::var(WAITED).ok().and_then(|text| text.parse().ok()) {
        return Duration::from_millis(ms);
    }
    usual
}
