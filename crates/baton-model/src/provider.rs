//! What is configured: who serves models, and how each model is treated.
//!
//! Values only. They are checked where they are put together, in [`crate::Catalog::new`].

use baton_core::chat::TokenUsage;

use crate::endpoint::Endpoint;
use crate::http::Timeouts;
use crate::secret::Secret;
use crate::wire::{InlineTags, Wire};

/// Somebody who serves models.
#[derive(Debug, Clone)]
pub struct Provider {
    /// What stands before the `/` in the names of its models.
    pub name: String,
    /// Where it is.
    pub base_url: Endpoint,
    /// The wire format that it speaks; absent: known from its name, or found out by the first call.
    pub api: Option<Wire>,
    /// Its key, if it wants one.
    pub key: Option<Secret>,
}

impl Provider {
    /// The wire format that it speaks, if that is known without asking.
    pub fn wire(&self) -> Option<Wire> {
        self.api.or(match self.name.as_str() {
            "ollama" => Some(Wire::Ollama),
            "openai" => Some(Wire::Responses),
            "anthropic" => Some(Wire::Anthropic),
            _ => None,
        })
    }
}

/// How one model is treated. Models without an entry are treated as [`ModelEntry::new`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEntry {
    /// Its name, as `provider/model`.
    pub name: String,
    /// Its wire format, where that is not its provider's.
    pub api: Option<Wire>,
    /// How it writes what its format has no field for.
    pub inline_tags: InlineTags,
    /// How long its calls may take.
    pub timeouts: Timeouts,
    /// How many calls it may have at a time; absent: any number.
    pub max_concurrency: Option<u32>,
    /// What it costs; absent: nobody said.
    pub price: Option<Price>,
}

impl ModelEntry {
    /// An entry that says nothing special.
    pub fn new(name: impl Into<String>) -> Self {
        ModelEntry {
            name: name.into(),
            api: None,
            inline_tags: InlineTags::default(),
            timeouts: Timeouts::default(),
            max_concurrency: None,
            price: None,
        }
    }
}

/// What a model costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// US dollars for a million tokens read.
    pub input_usd_per_million: f64,
    /// US dollars for a million tokens written.
    pub output_usd_per_million: f64,
}

impl Price {
    /// What costs nothing.
    pub const FREE: Price = Price { input_usd_per_million: 0.0, output_usd_per_million: 0.0 };

    /// What a call costs, in millionths of a dollar, rounded up: what costs anything never costs nothing.
    pub fn micro_usd(&self, usage: &TokenUsage) -> u64 {
        // A dollar for a million tokens is a millionth of a dollar for one.
        let exact = usage.prompt_tokens as f64 * self.input_usd_per_million
            + usage.completion_tokens as f64 * self.output_usd_per_million;
        // 100 * 0.07 is a little more than 7 for a computer.
        (exact * (1.0 - 1e-12)).ceil().max(0.0) as u64
    }

    /// Whether both are amounts of money.
    pub(crate) fn is_sound(&self) -> bool {
        [self.input_usd_per_million, self.output_usd_per_million]
            .iter()
            .all(|usd| usd.is_finite() && *usd >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(input: f64, output: f64, prompt_tokens: u64, completion_tokens: u64) -> u64 {
        Price { input_usd_per_million: input, output_usd_per_million: output }.micro_usd(&TokenUsage {
            prompt_tokens,
            completion_tokens,
            cost_micro_usd: None,
            estimated: false,
        })
    }

    #[test]
    fn a_call_costs_its_tokens_rounded_up() {
        let table = [
            (cost(3.0, 15.0, 1_000_000, 0), 3_000_000),
            (cost(3.0, 15.0, 1000, 200), 6000),
            (cost(0.07, 0.0, 100, 0), 7),
            (cost(0.15, 0.6, 1, 0), 1),
            (cost(0.15, 0.6, 7, 3), 3),
            (cost(0.15, 0.6, 0, 0), 0),
            (cost(0.0, 0.0, 1 << 40, 1 << 40), 0),
            (cost(f64::MAX, 0.0, u64::MAX, 0), u64::MAX),
        ];
        for (at, (found, expected)) in table.into_iter().enumerate() {
            assert_eq!(found, expected, "row {at}");
        }
    }

    #[test]
    fn known_providers_have_their_format_and_a_setting_wins() {
        let wire = |name: &str, api| {
            let base_url = Endpoint::parse("http://h").unwrap();
            Provider { name: name.to_owned(), base_url, api, key: None }.wire()
        };
        let table = [
            (wire("ollama", None), Some(Wire::Ollama)),
            (wire("openai", None), Some(Wire::Responses)),
            (wire("anthropic", None), Some(Wire::Anthropic)),
            (wire("mine", None), None),
            (wire("openai", Some(Wire::ChatCompletions)), Some(Wire::ChatCompletions)),
        ];
        for (found, expected) in table {
            assert_eq!(found, expected);
        }
    }
}
