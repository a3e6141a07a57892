//! The list of models that a server offers, under the server's own names.

use std::time::Duration;

use baton_core::fault::{Code, Fault};
use reqwest::Url;
use serde_json::Value;

use super::Catalog;
use crate::http::{
    CallDeadlines, HttpClients, RequestTarget, Timeouts, format_duration, redacted, with_retry_after,
};
use crate::remote::is_missing_path;
use crate::secret::Secret;
use crate::wire::{self, Wire};

/// The most bytes of a list.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// The time limit of a listing.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

impl Catalog {
    /// The models that a provider's server offers, as it orders them.
    pub async fn list(&self, provider: &str) -> Result<Vec<String>, Fault> {
        let Some(provider) = self.provider(provider) else {
            let problem =
                format!("there is no provider {provider:?}; {}", super::available(&self.inner.providers));
            return Err(Fault::new(Code::LlmConnection, problem));
        };
        let ask = |wire| {
            let to =
                RequestTarget { endpoint: &provider.base_url, key: provider.key.as_ref(), wire, span: None };
            list(&self.inner.http, to, LIST_TIMEOUT)
        };
        match provider.wire().or(self.endpoint_state(provider).detected()) {
            Some(wire) => ask(wire).await?,
            None => match ask(Wire::ChatCompletions).await? {
                Err(_) => ask(Wire::Ollama).await?,
                listed => listed,
            },
        }
        .map_err(|ListAbsent(fault)| fault)
    }
}

/// The server has no list at this address. The fault repeats the server's words.
struct ListAbsent(Fault);

async fn list(
    http: &HttpClients,
    to: RequestTarget<'_>,
    within: Duration,
) -> Result<Result<Vec<String>, ListAbsent>, Fault> {
    let url = to.endpoint.listing(to.wire);
    match tokio::time::timeout(within, document(http, to, url, within)).await {
        Ok(Ok(Ok(document))) => model_names(&document, to).map(Ok),
        Ok(Ok(Err(none))) => Ok(Err(none)),
        Ok(Err(fault)) => Err(final_fault(fault, to.key)),
        Err(_) => {
            let problem =
                format!("{} did not list its models within {}", to.endpoint, format_duration(within));
            Err(Fault::new(Code::LlmTimeout, problem))
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
        let error_body = reply.error_body().await;
        let fault = final_fault(wire::fault_from_status_at(status, &error_body, &path), to.key);
        return if is_missing_path(status, &error_body) { Ok(Err(ListAbsent(fault))) } else { Err(fault) };
    }
    let body = reply.body(MAX_LIST_BYTES).await?;
    serde_json::from_slice(&body).map(Ok).map_err(|_| invalid_list(to))
}

fn model_names(document: &Value, to: RequestTarget<'_>) -> Result<Vec<String>, Fault> {
    let (list, name) = to.wire.protocol().models_fields;
    let items = document[list].as_array().ok_or_else(|| invalid_list(to))?;
    Ok(items.iter().filter_map(|item| item[name].as_str()).map(str::to_owned).collect())
}

fn invalid_list(to: RequestTarget<'_>) -> Fault {
    Fault::new(
        Code::LlmInvalidResponse,
        format!("{} answered with something that is no list of models", to.endpoint),
    )
}

/// A fault as it is shown. A listing is not retried, so its attempt is always the first.
fn final_fault(fault: Fault, key: Option<&Secret>) -> Fault {
    redacted(with_retry_after(fault, 1, None), key)
}
