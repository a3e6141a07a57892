//! `GET /v1/threads/{id}/render`: the messages that a model would be sent for a thread.
//!
//! One answer is rendered from the newest entries before a place, up to [`MOST_BYTES`] of them: the cost of a request
//! does not depend on the length of the thread. Where the policy would show older ones, too, `next` is the place that
//! they lie before. A page begins with a whole group, so that no call is separated from its result; only a group that
//! is longer than a page by itself is split.

use std::collections::VecDeque;

use axum::Json;
use axum::extract::State;
use baton_core::id::{BranchName, Tenant, ThreadId};
use baton_core::render::first_group;
use baton_core::thread::Entry;
use baton_store::{Slice, Store, StoreError};
use serde_json::{Value, json};

use super::auth::{Caller, Scope};
use super::body::{Path, Query};
use super::page::MOST_BYTES;
use super::problem::{Problem, internal};
use super::shapes::{RenderName, RenderQuery};
use super::state::Service;
use super::threads::known;
use crate::commands::threads::{PolicyArg, RenderOptions, shown};
use crate::failure::exit;

/// How many entries are read at once: they may be long.
const AT_ONCE: u32 = 4;
/// How many entries are read at once after short ones.
const SHORT_AT_ONCE: u32 = 16;
/// The length of all entries of one read below which they count as short.
const SHORT: usize = 64 << 10;

/// See the module.
pub(crate) async fn render(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<RenderQuery>,
) -> Result<Json<Value>, Problem> {
    caller.need(Scope::Read)?;
    let id = known(&id)?;
    if query.last_n == Some(0) {
        return Err(Problem::invalid("`last_n` is at least 1"));
    }
    let NewestEntries { entries, first, is_cut } =
        NewestEntries::read(service.store(), &caller.tenant, &id, query.branch.as_ref(), query.before)
            .await?;
    let policy = query.policy.map(|policy| match policy {
        RenderName::Full => PolicyArg::Full,
        RenderName::LastN => PolicyArg::LastN,
        RenderName::TokenBudget => PolicyArg::TokenBudget,
        RenderName::Summary => PolicyArg::Summary,
    });
    let names = query.exclude.unwrap_or_default();
    let exclude =
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let wanted = RenderOptions { policy, last_n: query.last_n, exclude };
    let shown = shown(service.app(), &entries, first, wanted).map_err(|failure| match failure.code {
        exit::USAGE if query.policy == Some(RenderName::LastN) => {
            Problem::invalid("`policy=last_n` needs `last_n`, the number of entries")
        }
        _ => internal(&failure.message),
    })?;
    let mut document = json!({ "messages": shown.messages });
    if is_cut && shown.reaches_back {
        document["next"] = first.to_string().into();
    }
    Ok(Json(document))
}

/// The newest entries of a branch, as far as one answer goes back.
struct NewestEntries {
    entries: Vec<Entry>,
    /// The index of the first of them.
    first: i64,
    /// Whether there are older ones.
    is_cut: bool,
}

impl NewestEntries {
    async fn read(
        store: &Store,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        mut before: Option<i64>,
    ) -> Result<NewestEntries, StoreError> {
        let mut entries = VecDeque::new();
        let (mut bytes, mut first, mut at_once) = (0, 0, AT_ONCE);
        let is_cut = 'read: loop {
            let slice = Slice { before, last_n: Some(at_once) };
            let found = store.entries(tenant, id, branch, slice).await?;
            let read_before = bytes;
            for placed in found.into_iter().rev() {
                let length = placed.entry.data().to_string().len();
                if !entries.is_empty() && bytes + length > MOST_BYTES {
                    break 'read true;
                }
                bytes += length;
                first = placed.index;
                entries.push_front(placed.entry);
            }
            if first == 0 || before == Some(first) {
                break false;
            }
            before = Some(first);
            at_once = if bytes - read_before < SHORT { SHORT_AT_ONCE } else { AT_ONCE };
        };
        let newest = NewestEntries { entries: entries.into(), first, is_cut };
        Ok(if is_cut { newest.in_whole_groups() } else { newest })
    }

    /// Drops the end of a group that begins before the first entry.
    fn in_whole_groups(mut self) -> NewestEntries {
        let begun = first_group(&self.entries).unwrap_or_default();
        self.entries.drain(..begun);
        self.first += begun as i64;
        self
    }
}
