//! Which calls send data out: an address that a search of the same run found carries no data of the run.

use baton_core::effect::{Admission, CheckedCall, EffectKind, Reply};
use baton_core::thread::{Closing, Entry};
use baton_core::tool::{Egress, WEB_SEARCH};
use baton_store::{Slice, StoreError};
use baton_tools::is_search_result;
use serde_json::Value;

use super::Performer;
use crate::patience::patiently;

/// How many entries are read at once when results are looked for.
pub(super) const RESULTS_PAGE: u32 = 256;

impl Performer {
    /// Marks calls as sending nothing out whose address was among the search results of this run.
    pub(super) async fn without_found(&self, mut reply: Reply, kind: &EffectKind) -> Reply {
        let spec = |name: &str| self.definition.tools.iter().find(|tool| tool.name == name);
        let depends = |call: &CheckedCall| {
            spec(&call.name).is_some_and(|spec| spec.trust.egress == Egress::UnlessFound)
        };
        let EffectKind::Model { head, .. } = kind else { return reply };
        if !reply.calls.iter().any(depends) {
            return reply;
        }
        // If the search results cannot be read, the address counts as not found: then the user is asked.
        let found = Box::pin(self.results_of(WEB_SEARCH, *head)).await.unwrap_or_default();
        for call in reply.calls.iter_mut().filter(|call| depends(call)) {
            let url = call.arguments.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Admission::Fits { egress, .. } = &mut call.admission {
                *egress = !is_search_result(&url, &found);
            }
        }
        reply
    }

    /// The results of a tool in this run, up to an entry.
    async fn results_of(&self, tool: &str, head: i64) -> Result<Vec<Value>, StoreError> {
        let (mut results, mut before) = (Vec::new(), head + 1);
        loop {
            let slice = Slice { before: Some(before), last_n: Some(RESULTS_PAGE) };
            let page =
                patiently!(self, self.store.entries(&self.tenant, &self.thread, Some(&self.branch), slice))?;
            let ours = page.iter().filter(|placed| placed.run == Some(self.run)).count();
            before -= page.len() as i64;
            let is_last = ours < page.len() || page.is_empty();
            results.extend(page.into_iter().filter(|placed| placed.run == Some(self.run)).filter_map(
                |placed| match placed.entry {
                    Entry::ToolResult(result) if result.tool_name == tool && result.status == Closing::Ok => {
                        Some(result.result)
                    }
                    _ => None,
                },
            ));
            if is_last || before <= 0 {
                return Ok(results);
            }
        }
    }
}
