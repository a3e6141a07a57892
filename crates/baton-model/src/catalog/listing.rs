//! Which models a server offers, in its own words.

use std::time::Duration;

use baton_core::fault::{Code, Fault};
use reqwest::Url;
use serde_json::Value;

use super::Catalog;
use crate::http::{CallDeadlines, HttpClients, RequestTarget, Timeouts, settle, shown, words};
use crate::remote::is_absent;
use crate::secret::Secret;
use crate::wire::{self, Wire};

/// The longest list that is read.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// How long a list is waited for.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

impl Catalog {
    /// The models that a provider's server offers, as it orders them.
    pub async fn list(&self, provider: &str) -> Result<Vec<String>, Fault> {
        let Some(provider) = self.provider(provider) else {
            let told =
                format!("there is no provider {provider:?}; {}", super::available(&self.inner.providers));
            return Err(Fault::new(Code::LlmConnection, told));
        };
        let ask = |wire| {
            let to =
                RequestTarget { endpoint: &provider.base_url, key: provider.key.as_ref(), wire, span: None };
            list(&self.inner.http, to, LIST_TIMEOUT)
        };
        match provider.wire().or(self.endpoint_state(provider).found()) {
            Some(wire) => ask(wire).await?,
            None => match ask(Wire::ChatCompletions).await? {
                Err(_) => ask(Wire::Ollama).await?,
                listed => listed,
            },
        }
        .map_err(|ListAbsent(fault)| fault)
    }
}

/// The server has no list at this address; the fault says so in its words.
struct ListAbsent(Fault);

async fn list(
    http: &HttpClients,
    to: RequestTarget<'_>,
    within: Duration,
) -> Result<Result<Vec<String>, ListAbsent>, Fault> {
    let url = to.endpoint.listing(to.wire);
    match tokio::time::timeout(within, document(http, to, url, within)).await {
        Ok(Ok(Ok(document))) => names(&document, to).map(Ok),
        Ok(Ok(Err(none))) => Ok(Err(none)),
        Ok(Err(fault)) => Err(settled(fault, to.key)),
        Err(_) => {
            let told = format!("{} did not list its models within {}", to.endpoint, words(within));
            Err(Fault::new(Code::LlmTimeout, told))
        }
    }
}

async fn document(
    http: &HttpClients,
    to: RequestTarget<'_>,
    url: Url,
    within: Duration,
) -> Result<Result<Value, ListAbsent>, Fault> {
    let timeouts = Timeouts { connect: within, first_byte: within, idle: within, total: within };
    let path = url.path().to_owned();
    let mut reply = http.get(to, url, CallDeadlines::begin(timeouts)).await?;
    if !reply.is_success() {
        let status = reply.status();
        let complaint = reply.error_body().await;
        let fault = settled(wire::fault_from_status_at(status, &complaint, &path), to.key);
        return if is_absent(status, &complaint) { Ok(Err(ListAbsent(fault))) } else { Err(fault) };
    }
    let body = reply.body(MAX_LIST_BYTES).await?;
    serde_json::from_slice(&body).map(Ok).map_err(|_| no_list(to))
}

fn names(document: &Value, to: RequestTarget<'_>) -> Result<Vec<String>, Fault> {
    let (list, name) = match to.wire {
        Wire::Ollama => ("models", "name"),
        Wire::ChatCompletions | Wire::Responses | Wire::Anthropic => ("data", "id"),
    };
    let items = document[list].as_array().ok_or_else(|| no_list(to))?;
    Ok(items.iter().filter_map(|item| item[name].as_str()).map(str::to_owned).collect())
}

fn no_list(to: RequestTarget<'_>) -> Fault {
    Fault::new(
        Code::LlmInvalidResponse,
        format!("{} answered with something that is no list of models", to.endpoint),
    )
}

/// Nobody tries this again by itself, so the first try is the one that counts.
fn settled(fault: Fault, key: Option<&Secret>) -> Fault {
    shown(settle(fault, 1, None), key)
}
