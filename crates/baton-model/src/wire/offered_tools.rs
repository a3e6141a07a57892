//! A cache of offered tools: their names at a provider, and their encoded text in each format.
//!
//! Schemas are long, and the tools of a run are the same in each of its calls, so they are encoded once
//! and cached. A list is recognised by its address, and the cache holds the list itself: another
//! list that comes to lie at the same address cannot be taken for it. The number of lists is bounded, and
//! the least recently used one goes first.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use baton_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::Wire;
use super::names::NameMapping;

/// The most lists of tools in the cache.
const MAX_LISTS: usize = 8;

/// One list of tools.
#[derive(Debug, Default)]
pub struct OfferedTools {
    pub(super) names: NameMapping,
    encoded: Option<EncodedTools>,
}

#[derive(Debug)]
struct EncodedTools {
    tools: Arc<[ToolSpec]>,
    /// The encoded text by format.
    texts: [OnceLock<Box<RawValue>>; Wire::ALL.len()],
}

impl OfferedTools {
    /// These tools, with a cache of their encoded text.
    pub fn new(tools: &Arc<[ToolSpec]>) -> Self {
        let encoded = EncodedTools { tools: tools.clone(), texts: Default::default() };
        OfferedTools { encoded: Some(encoded), ..OfferedTools::uncached(tools) }
    }

    /// These tools, without a cache.
    pub(super) fn uncached(tools: &[ToolSpec]) -> Self {
        OfferedTools { names: NameMapping::of_tools(tools), encoded: None }
    }

    fn is_for(&self, tools: &Arc<[ToolSpec]>) -> bool {
        self.encoded.as_ref().is_some_and(|encoded| Arc::ptr_eq(&encoded.tools, tools))
    }

    /// The encoded text of these tools in a format, from the cache if it is there.
    pub(super) fn text<T: Serialize>(
        &self,
        wire: Wire,
        tools: &Arc<[ToolSpec]>,
        write: impl FnOnce() -> T,
    ) -> Cow<'_, RawValue> {
        // Plain values can always be serialized.
        let text = || to_raw_value(&write()).unwrap_or_default();
        match &self.encoded {
            Some(encoded) if Arc::ptr_eq(&encoded.tools, tools) => {
                Cow::Borrowed(encoded.texts[wire as usize].get_or_init(text))
            }
            _ => Cow::Owned(text()),
        }
    }
}

/// The lists of tools that were offered last.
#[derive(Debug, Default)]
pub(crate) struct OfferedToolsCache {
    /// In the order of use, the latest last.
    lists: Mutex<Vec<Arc<OfferedTools>>>,
}

impl OfferedToolsCache {
    /// The entry for these tools, added if it is not there.
    pub(crate) fn get(&self, tools: &Arc<[ToolSpec]>) -> Arc<OfferedTools> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = lists.iter().rposition(|list| list.is_for(tools)) {
            lists[at..].rotate_left(1);
        } else {
            if lists.len() == MAX_LISTS {
                lists.remove(0);
            }
            lists.push(Arc::new(OfferedTools::new(tools)));
        }
        lists.last().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
