//! Tools as they are offered: what they are called at a provider, and what each format writes of them.
//!
//! Schemas are long, and the tools of a run are the same in each of its calls, so their text is written once
//! and kept. It is used only for the very tools that it was written for, which are kept along with it: another
//! list that comes to lie at the same address cannot be taken for them. How many lists are kept is bounded, and
//! the one that was not asked for the longest goes first.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use baton_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::Wire;
use super::names::NameMapping;

/// How many lists of tools are kept.
const MAX_LISTS: usize = 8;

/// One list of tools.
#[derive(Debug, Default)]
pub struct OfferedTools {
    pub(super) names: NameMapping,
    kept: Option<EncodedTools>,
}

#[derive(Debug)]
struct EncodedTools {
    tools: Arc<[ToolSpec]>,
    /// By format.
    texts: [OnceLock<Box<RawValue>>; Wire::ALL.len()],
}

impl OfferedTools {
    /// These tools. What is written of them is kept as long as this is.
    pub fn new(tools: &Arc<[ToolSpec]>) -> Self {
        let kept = EncodedTools { tools: tools.clone(), texts: Default::default() };
        OfferedTools { kept: Some(kept), ..OfferedTools::once(tools) }
    }

    /// These tools, of which nothing is kept.
    pub(super) fn once(tools: &[ToolSpec]) -> Self {
        OfferedTools { names: NameMapping::of_tools(tools), kept: None }
    }

    fn is_of(&self, tools: &Arc<[ToolSpec]>) -> bool {
        self.kept.as_ref().is_some_and(|kept| Arc::ptr_eq(&kept.tools, tools))
    }

    /// What a format writes of these tools.
    pub(super) fn text<T: Serialize>(
        &self,
        wire: Wire,
        tools: &Arc<[ToolSpec]>,
        write: impl FnOnce() -> T,
    ) -> Cow<'_, RawValue> {
        // Plain values can always be written.
        let text = || to_raw_value(&write()).unwrap_or_default();
        match &self.kept {
            Some(kept) if Arc::ptr_eq(&kept.tools, tools) => {
                Cow::Borrowed(kept.texts[wire as usize].get_or_init(text))
            }
            _ => Cow::Owned(text()),
        }
    }
}

/// The lists that were offered last.
#[derive(Debug, Default)]
pub(crate) struct OfferedToolsCache {
    /// The last one asked for is the last.
    lists: Mutex<Vec<Arc<OfferedTools>>>,
}

impl OfferedToolsCache {
    /// The one of these tools.
    pub(crate) fn of(&self, tools: &Arc<[ToolSpec]>) -> Arc<OfferedTools> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = lists.iter().rposition(|list| list.is_of(tools)) {
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
