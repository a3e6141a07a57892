//! Configuration values: providers, and how each model is treated.
//!
//! They are checked in [`crate::Catalog::new`], where they are put together.

use baton_core::chat::TokenUsage;

use crate::endpoint::Endpoint;
use crate::http::Timeouts;
use crate::secret::Secret;
use crate::wire::{InlineTags, Wire};

/// A server of models.
#[derive(Debug, Clone)]
pub struct Provider {
    /// The part before the `/` in the names of its models.
    pub name: String,
    /// The address that the paths of its wire format are joined to.
    pub base_url: Endpoint,
    /// The wire format that it speaks; absent: known from its name, or detected by the first call.
    pub api: Option<Wire>,
    /// The key, where the server asks for one.
    pub key: Option<Secret>,
}

impl Provider {
    /// The wire format that it speaks, if that is known without a call.
    pub fn wire(&self) -> Option<Wire> {
        self.api.or_else(|| Wire::of_provider(&self.name))
    }
}

/// The settings of one model. Models without an entry have those of [`ModelEntry::new`].
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEntry {
    /// The model's name, as `provider/model`.
    pub name: String,
    /// The wire format, where it is not the provider's.
    pub api: Option<Wire>,
    /// The tags that the model writes into its text.
    pub inline_tags: InlineTags,
    /// How long its calls may take.
    pub timeouts: Timeouts,
    /// How many calls may run at a time; absent: any number.
    pub max_concurrency: Option<u32>,
    /// The price; absent: unknown.
    pub price: Option<Price>,
}

impl ModelEntry {
    /// An entry with the defaults.
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

/// The price of a model's tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// US dollars for a million tokens read.
    pub input_usd_per_million: f64,
    /// US dollars for a million tokens written.
    pub output_usd_per_million: f64,
}

impl Price {
    /// The price of a model on this machine.
    pub const FREE: Price = Price { input_usd_per_million: 0.0, output_usd_per_million: 0.0 };

    /// The cost of a call in millionths of a dollar, rounded up, so that a small cost never becomes none.
    pub fn micro_usd(&self, usage: &TokenUsage) -> u64 {
        // A dollar for a million tokens is a millionth of a dollar for one.
        let exact = usage.prompt_tokens as f64 * self.input_usd_per_million
            + usage.completion_tokens as f64 * self.output_usd_per_million;
        // 100 * 0.07 is a little more than 7 in floating point.
        (exact * (1.0 - 1e-12)).ceil().max(0.0) as u64
    }

    /// Whether both are amounts of money.
    pub(crate) fn is_valid(&self) -> bool {
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
