//! The tools of one agent, by name.
//!
//! A registry is built once and never changes; its schemas are compiled when it is built, so a tool
//! that could never be called is found at the start and not in the middle of a run.

mod call;
mod check;
mod schema;
mod trust;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use baton_core::json;
use baton_core::tool::ToolSpec;
use serde_json::Value;

use crate::tool::Tool;
use schema::Schema;

pub use call::ToolCallResult;
pub use check::{MAX_ARGUMENT_BYTES, VisibleTools};
pub use trust::TrustOverride;

/// The longest name that every provider accepts.
const MAX_NAME: usize = 64;

/// Why a set of tools is not a registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two tools have one name.
    #[error("two tools are named `{name}`; rename one of them")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// Providers would refuse the name.
    #[error("{name:?} is no name for a tool; use 1 to {MAX_NAME} of the characters a-z A-Z 0-9 _ -")]
    Name {
        /// The name.
        name: String,
    },
    /// A setting names a tool that does not exist.
    #[error("there is no tool `{name}`{}", nearest.as_ref().map(|it| format!("; the nearest one is `{it}`")).unwrap_or_default())]
    Unknown {
        /// The name.
        name: String,
        /// The tool that is named most like it.
        nearest: Option<String>,
    },
    /// A schema is not valid JSON Schema, or points outside itself.
    #[error("the {which} schema of tool `{name}` is not usable: {reason}")]
    Schema {
        /// The tool.
        name: String,
        /// `input` or `output`.
        which: &'static str,
        /// The error.
        reason: String,
    },
}

/// The tools of one agent. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    tools: Arc<BTreeMap<String, RegisteredTool>>,
}

struct RegisteredTool {
    tool: Arc<dyn Tool>,
    input: Schema,
    output: Option<Schema>,
}

impl Registry {
    /// Takes tools whose names differ and whose schemas are valid.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Registry, RegistryError> {
        let mut by_name = BTreeMap::new();
        for tool in tools {
            let spec = tool.spec();
            let name = spec.name.clone();
            if !is_tool_name(&name) {
                return Err(RegistryError::Name { name });
            }
            let input = compile(&name, "input", &spec.input_schema)?;
            let output = match &spec.output_schema {
                Some(schema) => Some(compile(&name, "output", schema)?),
                None => None,
            };
            if by_name.insert(name.clone(), RegisteredTool { tool, input, output }).is_some() {
                return Err(RegistryError::Duplicate { name });
            }
        }
        Ok(Registry { tools: Arc::new(by_name) })
    }

    /// A registry with the operator's settings for some of the tools, by name.
    pub fn with_trust(
        tools: Vec<Arc<dyn Tool>>,
        mut overrides: BTreeMap<String, TrustOverride>,
    ) -> Result<Registry, RegistryError> {
        let overridden = |tool: Arc<dyn Tool>| match overrides.remove(&tool.spec().name) {
            Some(setting) => setting.apply_to(tool),
            None => Some(tool),
        };
        let registry = Registry::new(tools.into_iter().filter_map(overridden).collect())?;
        match overrides.pop_first() {
            None => Ok(registry),
            Some((name, _)) => {
                let nearest = registry.nearest(&name, &|_| true).map(str::to_owned);
                Err(RegistryError::Unknown { name, nearest })
            }
        }
    }

    /// The tool whose name is most like this one, of those that pass a filter.
    fn nearest(&self, name: &str, filter: &dyn Fn(&str) -> bool) -> Option<&str> {
        let distance = |other: &&str| strsim::levenshtein(&name.to_lowercase(), &other.to_lowercase());
        self.tools.keys().map(String::as_str).filter(|other| filter(other)).min_by_key(distance)
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|registered| &registered.tool)
    }

    /// The specs of the tools, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|registered| registered.tool.spec().clone()).collect()
    }

    /// Checks arguments that did not come from a model (a person edited them, say) against the tool's schema.
    pub fn validate(&self, name: &str, arguments: &Value) -> Result<(), String> {
        let registered = self.tools.get(name).ok_or_else(|| format!("There is no tool {name:?}."))?;
        if !arguments.is_object() {
            return Err("The arguments are not a JSON object.".to_owned());
        }
        if json::is_deeper_than(arguments, json::MAX_DEPTH) {
            return Err(format!("The arguments are nested more than {} levels deep.", json::MAX_DEPTH));
        }
        match registered.input.mismatches(arguments) {
            None => Ok(()),
            Some(mismatches) => Err(format!("The arguments do not fit `{name}`: {mismatches}.")),
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

/// Whether a tool may have this name: the characters that every provider accepts, and dots, which each codec escapes.
pub(crate) fn is_tool_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

fn compile(name: &str, which: &'static str, schema: &Value) -> Result<Schema, RegistryError> {
    Schema::compile(schema).map_err(|reason| RegistryError::Schema { name: name.to_owned(), which, reason })
}

#[cfg(test)]
mod tests;
