//! Pages of lists. A page ends after the requested number of items or after [`MOST_BYTES`], whichever comes first, and
//! `next` continues right behind its last item.
//!
//! Items are read [`AT_ONCE`] at a time and written as they are read, so that the memory of a page does not depend on
//! how much is stored.

use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::problem::Problem;

/// The limit of a page where the query states none.
const USUAL: u32 = 100;
/// The largest limit of a page.
pub(crate) const MOST: u32 = 1000;
/// The longest page in bytes, except for one item that is longer by itself.
pub(crate) const MOST_BYTES: usize = 4 << 20;
/// How many items are read at once.
const AT_ONCE: u32 = 16;
/// How many items are read at first, and where those before were longer than [`LONG`] on average.
const LONG_AT_ONCE: u32 = 4;
const LONG: usize = 64 << 10;

/// Checks the limit of a query.
pub(crate) fn limit(wanted: Option<u32>) -> Result<u32, Problem> {
    match wanted.unwrap_or(USUAL) {
        limit @ 1..=MOST => Ok(limit),
        _ => Err(Problem::invalid(format!("`limit` is 1 to {MOST}"))),
    }
}

/// A page that is being written.
#[derive(Debug)]
pub(crate) struct Page {
    body: String,
    /// How many items are on the page, and how many more fit.
    count: u32,
    left: u32,
    /// The cursor of the last item.
    last: Option<String>,
    /// Whether there is an item that this page does not hold.
    is_more: bool,
}

impl Page {
    /// An empty page.
    pub(crate) fn new(limit: u32) -> Page {
        Page { body: "{\"items\":[".to_owned(), count: 0, left: limit, last: None, is_more: false }
    }

    /// How many items to read next: one more than fit, so that it is known whether more follow. None: the page is done.
    pub(crate) fn wanted(&self) -> Option<u32> {
        let are_short = self.count > 0 && self.body.len() / (self.count as usize) < LONG;
        let at_once = if are_short { AT_ONCE } else { LONG_AT_ONCE };
        (!self.is_more).then(|| (self.left + 1).min(at_once))
    }

    /// Puts an item on the page, if there is room for it.
    pub(crate) fn add(&mut self, item: &Value, place: String) {
        if self.is_more || self.left == 0 {
            self.is_more = true;
            return;
        }
        let item = item.to_string();
        if self.last.is_some() {
            if self.body.len() + item.len() > MOST_BYTES {
                self.is_more = true;
                return;
            }
            self.body.push(',');
        }
        self.body.push_str(&item);
        self.count += 1;
        self.left -= 1;
        self.last = Some(place);
    }

    /// Whether the page is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut body = self.body;
        body.push(']');
        if let Some(next) = self.last.filter(|_| self.is_more) {
            body.push_str(",\"next\":");
            body.push_str(&json!(next).to_string());
        }
        body.push('}');
        let mut response = body.into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of items and `next` of a page with this limit, for items of these lengths, read as handlers do.
    async fn told(limit: u32, lengths: &[usize]) -> (usize, Option<usize>) {
        let mut page = Page::new(limit);
        let mut at = 0;
        while let Some(wanted) = page.wanted() {
            let read = lengths.iter().skip(at).take(wanted as usize);
            let count = read
                .clone()
                .enumerate()
                .map(|(n, length)| page.add(&json!("x".repeat(*length)), (at + n).to_string()));
            let count = count.count();
            at += count;
            if count < wanted as usize {
                break;
            }
        }
        let bytes = axum::body::to_bytes(page.into_response().into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(bytes.len() <= MOST_BYTES + 64 || body["items"].as_array().unwrap().len() == 1);
        let next = body.get("next").map(|next| next.as_str().unwrap().parse().unwrap());
        (body["items"].as_array().unwrap().len(), next)
    }

    #[tokio::test]
    async fn a_page_ends_after_so_many_items_or_bytes() {
        assert_eq!(told(10, &[]).await, (0, None));
        assert_eq!(told(1, &[1]).await, (1, None));
        assert_eq!(told(1, &[1, 1]).await, (1, Some(0)));
        for n in [15, 16, 17, 32, 33, 100] {
            assert_eq!(told(n, &vec![1; n as usize]).await, (n as usize, None), "{n}");
            assert_eq!(told(n, &vec![1; n as usize + 1]).await, (n as usize, Some(n as usize - 1)), "{n}");
        }
        let half = MOST_BYTES / 2;
        assert_eq!(told(100, &[half, half, 1]).await, (1, Some(0)));
        assert_eq!(told(100, &[half, half - 100, 1]).await, (3, None));
        assert_eq!(
            told(100, &[MOST_BYTES * 2]).await,
            (1, None),
            "one that is too long is a page of its own"
        );
        assert_eq!(told(100, &[MOST_BYTES * 2, 1]).await, (1, Some(0)));
        assert_eq!(told(100, &[1, MOST_BYTES * 2, 1]).await, (1, Some(0)));
        assert_eq!(told(1000, &[1 << 20; 50]).await, (3, Some(2)));
    }
}
