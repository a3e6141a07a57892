//! `read_blob` and `search_blob`: the parts of a long output that were left out.
//!
//! A blob belongs to no branch: a call that knows the hash may read a stranger's page on a branch that never saw the
//! page. So the results of these tools always count as untrusted.

use std::sync::Arc;

use baton_core::id::Tenant;
use baton_core::tool::{EffectClass, Trust};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::excerpt;
use crate::tool::{CallContext, Tool, ToolError};
use crate::typed::{Structured, ToolInfo, off_thread, typed};

/// A window has to fit an output with its closing line, or reading a blob would make another blob.
const MAX_READ: u64 = 24 * 1024;
/// An unreadable byte is shown as a character of three.
const MAX_READ_LOSSY: usize = 8 * 1024;
const MAX_RESULTS: usize = 200;
const RESULTS: usize = 50;

/// The source of long outputs. Implemented over a store, which shows a tenant its own blobs only.
pub trait BlobSource: Send + Sync {
    /// The bytes of a tenant under a hash, if there are any.
    fn read(&self, tenant: Tenant, hash: String) -> BoxFuture<'static, Result<Option<Vec<u8>>, String>>;
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadBlobArguments {
    /// The hash that the abridged output names.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    hash: String,
    /// Where to begin, in bytes from the start; 0 if left out.
    offset: Option<u64>,
    /// How many bytes to read; 24576 if left out.
    #[schemars(range(min = 1, max = 24_576))]
    limit: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchBlobArguments {
    /// The hash that the abridged output names.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    hash: String,
    /// A regular expression; (?i) at its start ignores case. A match is at most 16 KiB long.
    #[schemars(length(min = 1, max = 1000))]
    pattern: String,
    /// How many matches to return; 50 if left out.
    #[schemars(range(min = 1, max = 200))]
    max_results: Option<usize>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct BlobMatches {
    matches: Vec<BlobMatch>,
    /// Whether there may be more matches than were asked for.
    more: bool,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct BlobMatch {
    /// Where the match begins, in bytes: an offset for read_blob (roughly, if the blob is not UTF-8 text).
    offset: usize,
    line: usize,
    text: String,
}

pub(crate) fn tools(source: Arc<dyn BlobSource>) -> Vec<Arc<dyn Tool>> {
    let about = |name, description| ToolInfo {
        name,
        description,
        class: EffectClass::SideEffectFree,
        timeout_ms: 10_000,
        trust: Trust { untrusted_output: true, ..Trust::BUILT_IN },
    };
    let reading = Arc::clone(&source);
    let read = typed(
        about(
            "read_blob",
            "Reads more of a long tool output of which only the beginning and the end were shown.",
        ),
        move |arguments: ReadBlobArguments, context| read(Arc::clone(&reading), arguments, context.tenant),
    );
    let search = typed(
        about(
            "search_blob",
            "Searches a long tool output, of which only a part was shown, for a pattern (grep).",
        ),
        move |arguments: SearchBlobArguments, context| search(Arc::clone(&source), arguments, context),
    );
    vec![read, search]
}

async fn fetch(source: &dyn BlobSource, tenant: Tenant, hash: String) -> Result<Vec<u8>, ToolError> {
    let blob = source.read(tenant, hash.clone()).await.map_err(ToolError::new)?;
    blob.ok_or_else(|| {
        ToolError::invalid_call(format!("There is no blob {hash}. Use the hash from an abridged output."))
    })
}

async fn read(
    source: Arc<dyn BlobSource>,
    arguments: ReadBlobArguments,
    tenant: Tenant,
) -> Result<String, ToolError> {
    let bytes = fetch(source.as_ref(), tenant, arguments.hash).await?;
    let offset = arguments.offset.unwrap_or(0);
    let limit = arguments.limit.unwrap_or(MAX_READ).min(MAX_READ);
    let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(bytes.len());
    let mut shown = &bytes[at(offset)..at(offset.saturating_add(limit))];
    if std::str::from_utf8(shown).is_err_and(|error| error.error_len().is_some()) {
        shown = &shown[..shown.len().min(MAX_READ_LOSSY)];
    }
    Ok(excerpt::window(shown, offset, bytes.len() as u64))
}

async fn search(
    source: Arc<dyn BlobSource>,
    arguments: SearchBlobArguments,
    context: CallContext,
) -> Result<Structured<BlobMatches>, ToolError> {
    let CallContext { tenant, cancel, .. } = context;
    let pattern = excerpt::compile_pattern(&arguments.pattern)?;
    let bytes = fetch(source.as_ref(), tenant, arguments.hash).await?;
    let limit = arguments.max_results.unwrap_or(RESULTS).min(MAX_RESULTS);
    off_thread(move || {
        let found =
            excerpt::matches(&String::from_utf8_lossy(&bytes), &pattern, limit, &|| cancel.is_cancelled());
        let more = found.len() == limit;
        let matches =
            found.into_iter().map(|m| BlobMatch { offset: m.offset, line: m.line, text: m.text }).collect();
        Structured(BlobMatches { matches, more })
    })
    .await
}
