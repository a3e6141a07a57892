//! Pins: the hashes of a service's tools as they were accepted. Pure.
//!
//! The description and the schema that a model sees come from the service itself, so a service that changes them
//! changes the behaviour of an agent. The first offer of a tool is accepted as it is; one that changes later is not
//! offered until a person accepts it.

use std::collections::BTreeSet;

use baton_core::json;
use baton_core::tool::ToolSpec;
use serde_json::json;

use super::{SkippedTool, ToolOffer};
use crate::registry::is_tool_name;

/// The prefix of the names under which a store remembers pins.
pub const PIN_PREFIX: &str = "tool execution ";

/// The name under which a store remembers a tool as it is now.
pub fn pin(spec: &ToolSpec) -> String {
    let ToolSpec { name, description, input_schema, output_schema, class, requires_context, .. } = spec;
    let pinned = json!([description, input_schema, output_schema, class, requires_context]);
    let hash = json::sha256_hex(json::canonical(&pinned).as_bytes());
    format!("{PIN_PREFIX}{hash} {name}")
}

/// An offer without the tools that differ from their pins, and the pins of the tools that are new.
pub fn apply_pins(mut offer: ToolOffer, pins: &[String]) -> (ToolOffer, Vec<String>) {
    let pins: BTreeSet<&str> = pins.iter().map(String::as_str).collect();
    let known: BTreeSet<&str> =
        pins.iter().filter_map(|pin| Some(pin.strip_prefix(PIN_PREFIX)?.split_once(' ')?.1)).collect();
    let (mut specs, mut new) = (Vec::new(), Vec::new());
    for spec in offer.specs {
        let pin = pin(&spec);
        // A tool without a usable name is left out where tools are made, and needs no pin.
        if !is_tool_name(&spec.name) || pins.contains(pin.as_str()) {
            specs.push(spec);
        } else if known.contains(spec.name.as_str()) {
            let why = format!(
                "it is not what was accepted: its description, schema or flags have changed; `baton tools accept {}` \
                 shows and accepts them",
                spec.name
            );
            offer.skipped.push(SkippedTool { name: spec.name, why });
        } else {
            new.push(pin);
            specs.push(spec);
        }
    }
    (ToolOffer { specs, skipped: offer.skipped }, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, description: &str) -> ToolSpec {
        ToolSpec { name: name.to_owned(), description: description.to_owned(), ..ToolSpec::default() }
    }

    fn offer(specs: &[ToolSpec]) -> ToolOffer {
        ToolOffer { specs: specs.to_vec(), skipped: Vec::new() }
    }

    #[test]
    fn a_new_tool_is_accepted_and_a_changed_one_is_not() {
        let (a, b, changed) = (spec("a", "one"), spec("b.c", "two"), spec("a", "other"));
        let (first, pins) = apply_pins(offer(&[a.clone(), b.clone()]), &[]);
        assert_eq!((first, pins.clone()), (offer(&[a.clone(), b.clone()]), vec![pin(&a), pin(&b)]));
        let (second, new) = apply_pins(offer(&[changed.clone(), b.clone()]), &pins);
        assert_eq!((second.specs, new), (vec![b.clone()], vec![]));
        assert_eq!(second.skipped.len(), 1);
        assert!(second.skipped[0].name == "a" && second.skipped[0].why.contains("baton tools accept a"));
        let pins = [pins, vec![pin(&changed)]].concat();
        assert_eq!(apply_pins(offer(&[changed.clone(), b.clone()]), &pins), (offer(&[changed, b]), vec![]));
        let odd = offer(&[spec("no\0name", "one")]);
        assert_eq!(apply_pins(odd.clone(), &[]), (odd, vec![]));
    }

    #[test]
    fn each_thing_that_a_model_or_a_crash_relies_on_is_pinned() {
        let base = spec("a", "one");
        let others = [
            ToolSpec { description: "two".to_owned(), ..base.clone() },
            ToolSpec { input_schema: json!({"type": "object"}), ..base.clone() },
            ToolSpec { output_schema: Some(json!({})), ..base.clone() },
            ToolSpec { class: baton_core::tool::EffectClass::Idempotent, ..base.clone() },
            ToolSpec { requires_context: true, ..base.clone() },
        ];
        let pins: BTreeSet<String> = others.iter().chain([&base]).map(pin).collect();
        assert_eq!(pins.len(), 6);
        // The timeout of a call is the operator's setting, and not pinned.
        assert_eq!(pin(&ToolSpec { timeout_ms: 1, ..base.clone() }), pin(&base));
    }
}
