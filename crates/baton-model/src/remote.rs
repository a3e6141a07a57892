//! A model at a provider: one call, from the gate's queue to the last delta.
//!
//! It connects the gate, the breakers, the codec and the HTTP path, none of which knows the others. The outcome
//! of a call is reported to the breakers once, here. A connection that
//! fails or a server that breaks marks the endpoint, for all models there; a timeout marks the model alone,
//! because the usual cause is a model that is too large for its machine, and a smaller one beside it still
//! works.
//!
//! It does not retry. Where the wire format of a server is not configured, the first call detects it: it sends
//! the same question in each format until the server has its path, and it is answered once.

mod answer;

use std::sync::{Arc, OnceLock};

use baton_core::chat::TokenUsage;
use baton_core::fault::{Code, Fault, without_credentials};
use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::Instant;

use crate::breaker::{Breaker, BreakerPermit};
use crate::endpoint::Endpoint;
use crate::gate::Gate;
use crate::http::{
    BodyKind, CallDeadlines, HttpClients, HttpReply, HttpRoute, RequestTarget, redacted, with_retry_after,
};
use crate::port::{DeltaStream, Model, ModelRequest};
use crate::provider::{ModelEntry, Price};
use crate::secret::Secret;
use crate::tokens;
use crate::wire::{self, OfferedToolsCache, Wire, WireNames, WireRequest};
use answer::{AnswerStream, OpenAnswer};

/// The order in which formats are tried where none is configured.
const DETECTION_ORDER: [Wire; 4] = [Wire::ChatCompletions, Wire::Responses, Wire::Anthropic, Wire::Ollama];

/// The state that all models at one address share.
#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) address: Endpoint,
    breaker: Breaker,
    /// The wire format that was detected.
    detected: OnceLock<Wire>,
}

impl EndpointState {
    /// The state of an endpoint without calls.
    pub(crate) fn new(address: Endpoint) -> Self {
        let breaker = Breaker::new(&address.to_string());
        EndpointState { address, breaker, detected: OnceLock::new() }
    }

    /// The wire format that was detected.
    pub(crate) fn detected(&self) -> Option<Wire> {
        self.detected.get().copied()
    }
}

/// A model at a provider. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct RemoteModel {
    setup: Arc<RemoteSetup>,
    cache: Arc<RequestCache>,
}

/// The routes and the encoded tools of a model's calls, made by the first call that needs them.
#[derive(Debug, Default)]
struct RequestCache {
    /// By format.
    routes: [OnceLock<Arc<HttpRoute>>; Wire::ALL.len()],
    tools: OfferedToolsCache,
}

/// The settings of a model, and everything that it shares with other models.
#[derive(Debug)]
pub(crate) struct RemoteSetup {
    pub(crate) http: Arc<HttpClients>,
    pub(crate) endpoint: Arc<EndpointState>,
    /// Named `provider/model`; the two fields that follow are the parts of the name.
    pub(crate) entry: ModelEntry,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// The wire format, if it is known without a call.
    pub(crate) wire: Option<Wire>,
    pub(crate) key: Option<Secret>,
    pub(crate) gate: Option<Gate>,
    pub(crate) breaker: Breaker,
}

impl RemoteModel {
    pub(crate) fn new(setup: RemoteSetup) -> Self {
        RemoteModel { setup: Arc::new(setup), cache: Arc::default() }
    }

    /// The wire format, configured or detected.
    pub(crate) fn known_wire(&self) -> Option<Wire> {
        self.setup.wire.or(self.setup.endpoint.detected())
    }

    #[cfg(test)]
    pub(crate) fn writes_as_openai(&self) -> bool {
        let request = ModelRequest::new("main", Vec::new());
        self.setup.call(&request, &WireNames::default()).is_openai
    }
}

impl Model for RemoteModel {
    fn name(&self) -> String {
        self.setup.entry.name.clone()
    }

    fn stream(&self, request: ModelRequest) -> DeltaStream {
        let opening = CallStage::Opening(self.clone(), Box::new(request));
        // The future that opens a call is much larger than the one that reads it, and ends soon: it has its own box.
        stream::unfold(opening, |stage| async move {
            let mut answer = match stage {
                CallStage::Opening(remote, request) => match Box::pin(remote.open(&request)).await {
                    Ok(answer) => Box::new(answer),
                    Err(fault) => return Some((Err(fault), CallStage::Over)),
                },
                CallStage::Answering(answer) => answer,
                CallStage::Over => return None,
            };
            answer.next().await.map(|delta| (delta, CallStage::Answering(answer)))
        })
        .boxed()
    }

    fn count(&self, text: &str) -> u64 {
        // A provider named openai at another address is a gateway to the same models.
        let is_openais = self.setup.endpoint.address.is_openai() || self.setup.provider == "openai";
        tokens::count(is_openais, &self.setup.model, text)
    }

    fn cost(&self, usage: &TokenUsage) -> Option<u64> {
        self.setup.price().map(|price| price.micro_usd(usage))
    }

    fn wire(&self) -> &'static str {
        self.known_wire().map_or("", Wire::as_str)
    }

    fn server(&self) -> Option<(String, u16)> {
        let endpoint = &self.setup.endpoint.address;
        Some((endpoint.host().to_owned(), endpoint.port()))
    }
}

/// The stage of a call. It is moved with every delta, so large parts are boxed.
enum CallStage {
    Opening(RemoteModel, Box<ModelRequest>),
    Answering(Box<AnswerStream>),
    Over,
}

impl RemoteModel {
    /// Sends the request and waits for the head of the reply.
    async fn open(&self, request: &ModelRequest) -> Result<AnswerStream, Fault> {
        let setup = &self.setup;
        let limits = CallDeadlines::begin(setup.entry.timeouts);
        let gate_permit = match &setup.gate {
            Some(gate) => Some(gate.enter(&request.tenant, limits.end()).await?),
            None => None,
        };
        let waited = gate_permit.as_ref().map(|permit| permit.waited).unwrap_or_default();
        let permits = CallPermits {
            endpoint: setup.endpoint.breaker.admit(now(), request.last_resort)?,
            model: setup.breaker.admit(now(), request.last_resort)?,
            // A call that spent its time in the queue proves nothing about the model when its time is up.
            counts_timeout: waited * 2 < setup.entry.timeouts.total,
        };
        let names = WireNames::with_tools(self.cache.tools.get(&request.tools), &request.messages);
        match self.send(request, &names, limits).await {
            Ok((reply, wire)) => {
                let decoder = wire.decoder(names, setup.entry.inline_tags);
                let open = OpenAnswer { reply, wire, permits, gate_permit };
                Ok(AnswerStream::new(setup.clone(), decoder, open, request))
            }
            Err(failure) => {
                let fault = setup.final_fault(failure.fault, request.attempt, failure.retry_after_ms);
                permits.failed(&fault);
                Err(fault)
            }
        }
    }

    /// Sends the request in the known format, or in each until the server has its path. A format counts as
    /// detected once its answer can be read.
    async fn send(
        &self,
        request: &ModelRequest,
        names: &WireNames,
        limits: CallDeadlines,
    ) -> Result<(HttpReply, Wire), RequestFailure> {
        let (setup, known) = (&self.setup, self.known_wire());
        let tried = known.as_ref().map_or(&DETECTION_ORDER[..], std::slice::from_ref);
        for &wire in tried {
            let route = self.route(wire)?;
            let body = wire.encode(&setup.call(request, names));
            let reply = route.post(request.traceparent.as_deref(), body, limits).await?;
            if reply.is_success() {
                if reply.kind() == BodyKind::Html {
                    return Err(setup.html_fault().into());
                }
                return Ok((reply, wire));
            }
            let (status, retry_after_ms) = (reply.status(), reply.retry_after_ms());
            let error_body = setup.redact_body(reply.error_body().await);
            if known.is_some() || !is_missing_path(status, &error_body) {
                return Err(RequestFailure {
                    fault: wire::fault_from_status_at(status, &error_body, route.path()),
                    retry_after_ms,
                });
            }
        }
        Err(setup.unknown_format_fault().into())
    }

    /// The route to the address of a format.
    fn route(&self, wire: Wire) -> Result<Arc<HttpRoute>, Fault> {
        let (setup, cached) = (&self.setup, &self.cache.routes[wire as usize]);
        if let Some(route) = cached.get() {
            return Ok(route.clone());
        }
        let endpoint = &setup.endpoint.address;
        let to = RequestTarget { endpoint, key: setup.key.as_ref(), wire, span: None };
        let route = setup.http.route(to, endpoint.address(wire), setup.entry.timeouts.connect)?;
        Ok(cached.get_or_init(|| route).clone())
    }
}

impl RemoteSetup {
    fn call<'a>(&'a self, request: &'a ModelRequest, names: &'a WireNames) -> WireRequest<'a> {
        let is_openai = self.endpoint.address.is_openai();
        WireRequest { model: &self.model, name: &self.entry.name, request, names, is_openai }
    }

    /// Remembers that the server answers in this format.
    fn set_detected(&self, wire: Wire) {
        if self.wire.is_none() {
            // A call that was faster has set the same.
            let _ = self.endpoint.detected.set(wire);
        }
    }

    /// A fault as callers see it: with the wait before the next try, and without the key.
    fn final_fault(&self, fault: Fault, attempt: u32, asked_ms: Option<u64>) -> Fault {
        redacted(with_retry_after(fault, attempt, asked_ms), self.key.as_ref())
    }

    /// The body of an error without the key. It is taken out before the text is cut, or half of it might stay.
    fn redact_body(&self, body: Vec<u8>) -> Vec<u8> {
        let body = without_credentials(&String::from_utf8_lossy(&body));
        match &self.key {
            Some(key) => key.redact(&body).into_bytes(),
            None => body.into_bytes(),
        }
    }

    /// The price, if it is configured. A model on this machine is free.
    fn price(&self) -> Option<Price> {
        self.entry.price.or(self.endpoint.address.is_local().then_some(Price::FREE))
    }

    fn html_fault(&self) -> Fault {
        let problem = format!("{} answered with a web page; is base_url right?", self.endpoint.address);
        Fault::new(Code::LlmInvalidResponse, problem)
    }

    fn unknown_format_fault(&self) -> Fault {
        let tried: Vec<&str> = DETECTION_ORDER.iter().map(|wire| wire.as_str()).collect();
        let problem = format!(
            "{} speaks none of the known formats ({}); is base_url right? The provider's `api` names one",
            self.endpoint.address,
            tried.join(", ")
        );
        Fault::new(Code::LlmConnection, problem)
    }
}

/// The failure of a request, with the wait that the server asks for before a retry.
struct RequestFailure {
    fault: Fault,
    retry_after_ms: Option<u64>,
}

impl From<Fault> for RequestFailure {
    fn from(fault: Fault) -> Self {
        RequestFailure { fault, retry_after_ms: None }
    }
}

/// Whether a reply means that the server does not have the path, and not that it does not have the model.
pub(crate) fn is_missing_path(status: u16, error_body: &[u8]) -> bool {
    let names_a_model = || String::from_utf8_lossy(error_body).to_ascii_lowercase().contains("model");
    matches!(status, 404 | 405 | 501) && !names_a_model()
}

/// The permits of one call: of the endpoint's breaker and of the model's.
struct CallPermits {
    endpoint: BreakerPermit,
    model: BreakerPermit,
    counts_timeout: bool,
}

impl CallPermits {
    fn answer_began(&mut self) {
        let now = now();
        self.endpoint.answer_began(now);
        self.model.answer_began(now);
    }

    fn succeeded(self) {
        let now = now();
        self.endpoint.succeeded(now);
        self.model.succeeded(now);
    }

    /// A fault that is not worth a retry is the answer of a server that works. A rate limit, or an answer that
    /// cannot be read, counts as neither.
    fn failed(self, fault: &Fault) {
        match fault.code {
            Code::LlmTimeout if self.counts_timeout => self.model.failed(now(), fault.code),
            Code::LlmConnection | Code::LlmServer if fault.retry_after_ms.is_some() => {
                self.endpoint.failed(now(), fault.code);
            }
            Code::LlmServer | Code::LlmAuth | Code::ContextTooLong | Code::Refused => self.succeeded(),
            _ => {}
        }
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

#[cfg(test)]
mod tests;
