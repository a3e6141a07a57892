//! The caller's `Idempotency-Key`: the same request is begun only once.
//!
//! A key belongs to a tenant and a path and is kept for a day. The body that came with it is remembered as a hash of
//! its one canonical text, so that spaces and the order of fields do not matter.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderName};
use baton_core::json::{canonical, sha256_hex};
use baton_engine::{Clock, SystemClock};
use baton_store::NewKey;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::body;
use super::problem::Problem;
use super::state::Service;

/// The header that holds the key.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// How long a key is kept, in milliseconds.
const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// A JSON body, and the key that came with it.
pub(crate) struct Keyed<T> {
    pub(crate) body: T,
    pub(crate) key: Option<NewKey>,
}

impl<T: DeserializeOwned> FromRequest<Service> for Keyed<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Service) -> Result<Self, Problem> {
        let key = named(request.headers())?;
        let route = key.is_some().then(|| request.uri().path().to_owned());
        let bytes = body::read(request, service.limits()).await?;
        let body = body::parse(&bytes)?;
        let (Some(key), Some(route)) = (key, route) else { return Ok(Keyed { body, key: None }) };
        let whole: Value = body::parse(&bytes)?;
        let body_hash = sha256_hex(canonical(&whole).as_bytes());
        let expires_at = SystemClock.now().plus_ms(KEPT_MS);
        Ok(Keyed { body, key: Some(NewKey { route, key, body_hash, expires_at }) })
    }
}

/// The key of a request, if it has one.
fn named(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(HEADER).iter();
    let Some(first) = given.next() else { return Ok(None) };
    let visible = |text: &&str| (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    match (first.to_str().ok().filter(visible), given.next()) {
        (Some(key), None) => Ok(Some(key.to_owned())),
        _ => Err(Problem::invalid("Idempotency-Key is one value of 1 to 255 visible ASCII characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn read(values: &[&[u8]]) -> Result<Option<String>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        named(&headers).map_err(|problem| problem.detail)
    }

    #[test]
    fn a_key_is_one_visible_word() {
        let refused = Err("Idempotency-Key is one value of 1 to 255 visible ASCII characters".to_owned());
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[b"a-1!~"]), Ok(Some("a-1!~".to_owned())));
        assert_eq!(read(&[&[b'x'; 255]]), Ok(Some("x".repeat(255))));
        for wrong in
            [&[b"".as_slice()] as &[&[u8]], &[&[b'x'; 256]], &[b"a b"], &["é".as_bytes()], &[b"a", b"a"]]
        {
            assert_eq!(read(wrong), refused, "{wrong:?}");
        }
    }
}
