//! A request body that is sent only if the call is still permitted once there is a connection.
//!
//! A client polls the body when it has a connection; a request without its body is incomplete, and no server acts on
//! it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::tool::CallPermit;

/// Why a request was not sent.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("it may not be sent any more")]
pub(super) struct NotPermitted;

/// See the module.
pub(super) struct PermittedBody {
    bytes: Bytes,
    /// Behind a lock only so that threads may share the whole.
    permission: Mutex<BoxFuture<'static, bool>>,
    is_refused: Arc<AtomicBool>,
}

impl PermittedBody {
    /// A body that sets `is_refused` if the permission is gone.
    pub(super) fn body(bytes: Vec<u8>, permit: CallPermit, is_refused: Arc<AtomicBool>) -> reqwest::Body {
        let permission =
            Mutex::new(Box::pin(async move { permit.holds().await }) as BoxFuture<'static, bool>);
        reqwest::Body::wrap(PermittedBody { bytes: bytes.into(), permission, is_refused })
    }
}

impl Body for PermittedBody {
    type Data = Bytes;
    type Error = NotPermitted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotPermitted>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        let permission = self.permission.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ready!(permission.as_mut().poll(cx)) {
            let bytes = std::mem::take(&mut self.bytes);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        self.is_refused.store(true, SeqCst);
        Poll::Ready(Some(Err(NotPermitted)))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The bytes that arrive of a request of two bytes, whether it was refused, and the status of the response.
    async fn sent(is_permitted: bool) -> (String, bool, Option<u16>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let permit = CallPermit::new(move || {
            async move {
                tokio::task::yield_now().await;
                is_permitted
            }
            .boxed()
        });
        let is_refused = Arc::new(AtomicBool::new(false));
        let body = PermittedBody::body(b"hi".to_vec(), permit, is_refused.clone());
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let served = async {
            let (mut peer, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\nhi") {
                match peer.read_u8().await {
                    Ok(byte) => asked.push(byte),
                    Err(_) => return asked, // it was closed
                }
            }
            peer.write_all(b"HTTP/1.1 204 No\r\n\r\n").await.unwrap();
            asked
        };
        let (answer, asked) = tokio::join!(client.post(url).body(body).send(), served);
        let status = answer.ok().map(|answer| answer.status().as_u16());
        (String::from_utf8(asked).unwrap(), is_refused.load(SeqCst), status)
    }

    #[tokio::test]
    async fn a_request_that_is_not_permitted_any_more_has_no_body() {
        let (asked, is_refused, status) = sent(false).await;
        assert!(!asked.contains("\r\n\r\nhi"), "{asked:?}");
        assert_eq!((is_refused, status), (true, None));
        let (asked, is_refused, status) = sent(true).await;
        assert!(asked.contains("content-length: 2\r\n") && asked.ends_with("\r\n\r\nhi"), "{asked:?}");
        assert_eq!((is_refused, status), (false, Some(204)));
    }
}
