//! One HTTP reply as it arrives.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use baton_core::fault::{Code, Fault};
use baton_http::HttpError;
use futures_util::FutureExt;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION};

use super::client::ClientResponse;
use super::limits::DeadlineTimer;
use super::retry;
use super::route::HttpRoute;

/// The most bytes of an error's body that are read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The time limit for reading an error's body.
const ERROR_WAIT: Duration = Duration::from_secs(5);

/// The time limit for the end of a body once the answer is complete, so that its connection can be
/// used again.
const DRAIN_WAIT: Duration = Duration::from_millis(50);

/// A reply whose head has arrived. Dropping it closes the socket, unless its body was read to the end.
#[derive(Debug)]
pub(crate) struct HttpReply {
    response: ClientResponse,
    route: Arc<HttpRoute>,
    timer: DeadlineTimer,
    kind: BodyKind,
    /// Whether any of the body has arrived.
    began: bool,
}

/// The kind of a body by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// A web page.
    Html,
    /// One JSON document.
    Json,
    /// Anything else, which the decoder checks.
    Stream,
}

impl BodyKind {
    fn from_content_type(content_type: &str) -> Self {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        if is("text/html") || is("application/xhtml+xml") {
            BodyKind::Html
        } else if is("application/json") {
            BodyKind::Json
        } else {
            BodyKind::Stream
        }
    }
}

impl HttpReply {
    /// A reply with a readable body. A redirect is a fault, because a key must not follow it.
    pub(super) fn new(
        response: ClientResponse,
        route: Arc<HttpRoute>,
        timer: DeadlineTimer,
    ) -> Result<Self, Fault> {
        let kind = BodyKind::from_content_type(header(&response, CONTENT_TYPE));
        let mut reply = HttpReply { response, route, timer, kind, began: false };
        let status = reply.response.status();
        if status.is_redirection() {
            return Err(reply.redirected());
        }
        match header(&reply.response, CONTENT_ENCODING) {
            "" | "identity" => {
                if status.is_success() {
                    reply.response.drop_headers();
                }
                Ok(reply)
            }
            encoding => {
                let endpoint = reply.route.endpoint();
                Err(invalid(format!("{endpoint} compressed its answer ({encoding}) although nobody asked")))
            }
        }
    }

    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn is_success(&self) -> bool {
        self.response.status().is_success()
    }

    /// The wait that the server asks for before a retry, in milliseconds.
    pub(crate) fn retry_after_ms(&self) -> Option<u64> {
        retry::retry_after_ms(self.response.headers())
    }

    /// The kind of the body by its content type.
    pub(crate) fn kind(&self) -> BodyKind {
        self.kind
    }

    /// The next bytes of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<impl Deref<Target = [u8]> + use<>>, Fault> {
        let wait = self.response.chunk();
        let chunk = if self.began { self.timer.next(wait).await? } else { self.timer.first(wait).await? };
        self.began = true;
        chunk.map_err(|broken| self.broken_fault(&broken))
    }

    /// The next bytes of the body, if they have arrived already.
    pub(crate) fn chunk_if_ready(
        &mut self,
    ) -> Option<Result<Option<impl Deref<Target = [u8]> + use<>>, Fault>> {
        let chunk = self.response.chunk().now_or_never()?;
        Some(chunk.map_err(|broken| self.broken_fault(&broken)))
    }

    /// The fault of a body that broke off. reqwest calls a reset in the middle of a body a failure to decode
    /// it; it is a failure of the connection.
    fn broken_fault(&self, broken: &HttpError) -> Fault {
        let (endpoint, cause) = (self.route.endpoint(), &broken.cause);
        let problem = format!("the connection to {endpoint} broke in the middle of the answer: {cause}");
        Fault::new(Code::LlmConnection, problem).retry_after_ms(0)
    }

    /// The whole body, of at most `most` bytes.
    pub(crate) async fn body(&mut self, most: usize) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > most {
                return Err(invalid(format!(
                    "{} answered with more than {} MiB",
                    self.route.endpoint(),
                    most >> 20
                )));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// The beginning of an error's body, as much of it as arrives soon: the status is known already.
    pub(crate) async fn error_body(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(chunk)) = self.chunk().await {
                let room = MAX_ERROR_BYTES - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if body.len() == MAX_ERROR_BYTES {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(ERROR_WAIT, read).await;
        body
    }

    /// Reads a body to its end after the answer is complete, so that the connection can be used again.
    pub(crate) async fn drain(mut self) {
        let read = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        let _ = tokio::time::timeout(DRAIN_WAIT, read).await;
    }

    fn redirected(&self) -> Fault {
        let status = self.status();
        // The address may be relative; its query may hold a secret.
        let to = self.route.url().join(header(&self.response, LOCATION)).ok().map(|mut url| {
            url.set_query(None);
            url.set_fragment(None);
            let _ = (url.set_username(""), url.set_password(None));
            url
        });
        let problem = match to {
            Some(to) => format!(
                "{} answered with a redirect ({status}) to {to}, which is not followed; if that is right, make it the base_url",
                self.route.endpoint()
            ),
            None => format!("{} answered with a redirect ({status}) to nowhere", self.route.endpoint()),
        };
        Fault::new(Code::LlmConnection, problem)
    }
}

fn header(response: &ClientResponse, name: HeaderName) -> &str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn invalid(problem: String) -> Fault {
    Fault::new(Code::LlmInvalidResponse, problem)
}
