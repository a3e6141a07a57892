//! A model at a provider: one call, from the wait for a free place to the last delta.
//!
//! It puts the parts together and each part stays ignorant of the others: the gate says when, the breakers
//! whether, the codec what, the HTTP path how. Breakers hear of what happened once, here. A connection that
//! fails or a server that breaks marks the endpoint, for all models there; a timeout marks the model alone,
//! because the usual cause is a model that is too large for its machine, and a smaller one beside it is the
//! way out.
//!
//! It does not retry. Which wire format a server speaks is found out by the first call where nobody said,
//! by asking in each until one is there; that is the same question, and it is answered once.

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
use crate::http::{BodyKind, CallDeadlines, HttpClients, HttpReply, HttpRoute, RequestTarget, settle, shown};
use crate::port::{DeltaStream, Model, ModelRequest};
use crate::provider::{ModelEntry, Price};
use crate::secret::Secret;
use crate::tokens;
use crate::wire::{self, OfferedToolsCache, Wire, WireNames, WireRequest};
use answer::{AnswerStream, OpenAnswer};

/// The order in which formats are tried where nobody said which it is.
const DETECTION_ORDER: [Wire; 4] = [Wire::ChatCompletions, Wire::Responses, Wire::Anthropic, Wire::Ollama];

/// What all models at one address share.
#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) endpoint: Endpoint,
    breaker: Breaker,
    /// The wire format that was found out.
    found: OnceLock<Wire>,
}

impl EndpointState {
    /// One of which nothing is known yet.
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let breaker = Breaker::new(&endpoint.to_string());
        EndpointState { endpoint, breaker, found: OnceLock::new() }
    }

    /// The wire format that was found out.
    pub(crate) fn found(&self) -> Option<Wire> {
        self.found.get().copied()
    }
}

/// A model at a provider. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct RemoteModel {
    setup: Arc<RemoteSetup>,
    prepared: Arc<RequestCache>,
}

/// What is the same from call to call, made by the first that needs it.
#[derive(Debug, Default)]
struct RequestCache {
    /// By format.
    ways: [OnceLock<Arc<HttpRoute>>; Wire::ALL.len()],
    offers: OfferedToolsCache,
}

#[derive(Debug)]
pub(crate) struct RemoteSetup {
    pub(crate) http: Arc<HttpClients>,
    pub(crate) site: Arc<EndpointState>,
    /// As `provider/model`, and both parts.
    pub(crate) entry: ModelEntry,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// The wire format, if it is known without asking.
    pub(crate) wire: Option<Wire>,
    pub(crate) key: Option<Secret>,
    pub(crate) gate: Option<Gate>,
    pub(crate) breaker: Breaker,
}

impl RemoteModel {
    pub(crate) fn new(setup: RemoteSetup) -> Self {
        RemoteModel { setup: Arc::new(setup), prepared: Arc::default() }
    }

    /// The wire format that it speaks, as far as that is known.
    pub(crate) fn known_wire(&self) -> Option<Wire> {
        self.setup.wire.or(self.setup.site.found())
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
        let asking = CallStage::Asking(self.clone(), Box::new(request));
        // Asking takes much more room than listening, and is over soon: it has a box of its own.
        stream::unfold(asking, |stage| async move {
            let mut answer = match stage {
                CallStage::Asking(remote, request) => match Box::pin(remote.open(&request)).await {
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
        // One named so that is elsewhere is a gateway to the same models.
        let is_openais = self.setup.site.endpoint.is_openai() || self.setup.provider == "openai";
        tokens::count(is_openais, &self.setup.model, text)
    }

    fn cost(&self, usage: &TokenUsage) -> Option<u64> {
        self.setup.price().map(|price| price.micro_usd(usage))
    }

    fn wire(&self) -> &'static str {
        self.known_wire().map_or("", Wire::as_str)
    }

    fn server(&self) -> Option<(String, u16)> {
        let endpoint = &self.setup.site.endpoint;
        Some((endpoint.host().to_owned(), endpoint.port()))
    }
}

/// How far a call is. It is moved with every delta, so what is large is in a box.
enum CallStage {
    Asking(RemoteModel, Box<ModelRequest>),
    Answering(Box<AnswerStream>),
    Over,
}

impl RemoteModel {
    /// Everything up to the head of the reply.
    async fn open(&self, request: &ModelRequest) -> Result<AnswerStream, Fault> {
        let setup = &self.setup;
        let limits = CallDeadlines::begin(setup.entry.timeouts);
        let place = match &setup.gate {
            Some(gate) => Some(gate.enter(&request.tenant, limits.end()).await?),
            None => None,
        };
        let waited = place.as_ref().map(|place| place.waited).unwrap_or_default();
        let verdict = CallPermits {
            site: setup.site.breaker.admit(now(), request.last_resort)?,
            model: setup.breaker.admit(now(), request.last_resort)?,
            // A call that spent its time in the queue says nothing about the model when it is up.
            is_fair: waited * 2 < setup.entry.timeouts.total,
        };
        let names = WireNames::with_tools(self.prepared.offers.of(&request.tools), &request.messages);
        match self.ask(request, &names, limits).await {
            Ok((reply, wire)) => {
                let decoder = wire.decoder(names, setup.entry.inline_tags);
                let reading = OpenAnswer { reply, wire, verdict, place };
                Ok(AnswerStream::new(setup.clone(), decoder, reading, request))
            }
            Err(failure) => {
                let fault = setup.settled(failure.fault, request.attempt, failure.said);
                verdict.failed(&fault);
                Err(fault)
            }
        }
    }

    /// Asks in the format that the server speaks, or in each until one is there. Which one that is counts
    /// as found out when its answer can be read.
    async fn ask(
        &self,
        request: &ModelRequest,
        names: &WireNames,
        limits: CallDeadlines,
    ) -> Result<(HttpReply, Wire), RequestFailure> {
        let (setup, known) = (&self.setup, self.known_wire());
        let tried = known.as_ref().map_or(&DETECTION_ORDER[..], std::slice::from_ref);
        for &wire in tried {
            let way = self.way(wire)?;
            let body = wire.encode(&setup.call(request, names));
            let reply = way.ask(request.traceparent.as_deref(), body, limits).await?;
            if reply.is_success() {
                if reply.kind() == BodyKind::Html {
                    return Err(setup.page().into());
                }
                return Ok((reply, wire));
            }
            let (status, said) = (reply.status(), reply.retry_after_ms());
            let complaint = setup.redacted(reply.error_body().await);
            if known.is_some() || !is_absent(status, &complaint) {
                return Err(RequestFailure {
                    fault: wire::fault_from_status_at(status, &complaint, way.path()),
                    said,
                });
            }
        }
        Err(setup.unknown().into())
    }

    /// The way to where a format is asked.
    fn way(&self, wire: Wire) -> Result<Arc<HttpRoute>, Fault> {
        let (setup, prepared) = (&self.setup, &self.prepared.ways[wire as usize]);
        if let Some(way) = prepared.get() {
            return Ok(way.clone());
        }
        let endpoint = &setup.site.endpoint;
        let to = RequestTarget { endpoint, key: setup.key.as_ref(), wire, span: None };
        let way = setup.http.way(to, endpoint.address(wire), setup.entry.timeouts.connect)?;
        Ok(prepared.get_or_init(|| way).clone())
    }
}

impl RemoteSetup {
    fn call<'a>(&'a self, request: &'a ModelRequest, names: &'a WireNames) -> WireRequest<'a> {
        let is_openai = self.site.endpoint.is_openai();
        WireRequest { model: &self.model, name: &self.entry.name, request, names, is_openai }
    }

    /// An answer in this format is being read, so that is what the server speaks.
    fn understood(&self, wire: Wire) {
        if self.wire.is_none() {
            // Whoever was faster found the same.
            let _ = self.site.found.set(wire);
        }
    }

    /// A fault as it leaves: with the moment of the next try, and without the key.
    fn settled(&self, fault: Fault, attempt: u32, said: Option<u64>) -> Fault {
        shown(settle(fault, attempt, said), self.key.as_ref())
    }

    /// The key is taken out before anybody cuts the text, or half of it might stay.
    fn redacted(&self, complaint: Vec<u8>) -> Vec<u8> {
        let complaint = without_credentials(&String::from_utf8_lossy(&complaint));
        match &self.key {
            Some(key) => key.redact(&complaint).into_bytes(),
            None => complaint.into_bytes(),
        }
    }

    /// What the model costs, as far as anybody said. What runs on this machine is free.
    fn price(&self) -> Option<Price> {
        self.entry.price.or(self.site.endpoint.is_local().then_some(Price::FREE))
    }

    fn page(&self) -> Fault {
        let told = format!("{} answered with a web page; is base_url right?", self.site.endpoint);
        Fault::new(Code::LlmInvalidResponse, told)
    }

    fn unknown(&self) -> Fault {
        let tried: Vec<&str> = DETECTION_ORDER.iter().map(|wire| wire.as_str()).collect();
        let told = format!(
            "{} speaks none of the known formats ({}); is base_url right? The provider's `api` names one",
            self.site.endpoint,
            tried.join(", ")
        );
        Fault::new(Code::LlmConnection, told)
    }
}

/// A failure, and when the server wants to be asked again.
struct RequestFailure {
    fault: Fault,
    said: Option<u64>,
}

impl From<Fault> for RequestFailure {
    fn from(fault: Fault) -> Self {
        RequestFailure { fault, said: None }
    }
}

/// Whether a reply says that nothing is at its address, and not that a model is missing there.
pub(crate) fn is_absent(status: u16, complaint: &[u8]) -> bool {
    let names_a_model = || String::from_utf8_lossy(complaint).to_ascii_lowercase().contains("model");
    matches!(status, 404 | 405 | 501) && !names_a_model()
}

/// What the breakers wait to hear of a call.
struct CallPermits {
    site: BreakerPermit,
    model: BreakerPermit,
    is_fair: bool,
}

impl CallPermits {
    fn answer_began(&mut self) {
        let now = now();
        self.site.answer_began(now);
        self.model.answer_began(now);
    }

    fn succeeded(self) {
        let now = now();
        self.site.succeeded(now);
        self.model.succeeded(now);
    }

    /// A fault that is not worth another try is an answer, too, of a server that works; one that asks us to
    /// slow down, or that we cannot read, says nothing.
    fn failed(self, fault: &Fault) {
        match fault.code {
            Code::LlmTimeout if self.is_fair => self.model.failed(now(), fault.code),
            Code::LlmConnection | Code::LlmServer if fault.retry_after_ms.is_some() => {
                self.site.failed(now(), fault.code);
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
