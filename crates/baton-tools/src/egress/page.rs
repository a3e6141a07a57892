//! Fetched pages: the kinds of content that are read, and a body within its limits.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use tokio::time::{Instant, timeout_at};

use super::EgressError;

/// A response that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPage {
    /// Its address, after all redirects.
    pub url: reqwest::Url,
    /// Its kind of content.
    pub media: Media,
    /// The character encoding that the server named, in lower case.
    pub charset: Option<String>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// Why the body is not whole, if it is not.
    pub cut: Option<Truncation>,
}

/// The kinds of content that are read. Pictures, archives and programs are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// HTML or XHTML.
    Html,
    /// JSON, under any of its media types.
    Json,
    /// Any other text, XML included.
    Text,
}

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// It is longer than so many bytes.
    Size(usize),
    /// It took longer than this.
    Time(Duration),
}

/// The limits of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// How long it may take, with look-ups and redirects.
    pub time: Duration,
    /// How much of the body is read.
    pub bytes: usize,
    /// How many redirects are followed.
    pub redirects: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        FetchLimits { time: Duration::from_secs(10), bytes: 2 * 1024 * 1024, redirects: 3 }
    }
}

/// The kind of content and the charset that the headers declare.
pub(super) fn media(headers: &HeaderMap) -> Result<(Media, Option<String>), EgressError> {
    // No compression was asked for; a compressed body could hide any amount of data in a few bytes.
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(EgressError::Compressed);
    }
    let header = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let header = header.to_ascii_lowercase();
    let mut parts = header.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let media = match name {
        "text/html" | "application/xhtml+xml" => Media::Html,
        "application/json" | "application/x-ndjson" | "text/json" => Media::Json,
        "application/xml" | "application/javascript" | "application/yaml" | "application/toml" => Media::Text,
        name if name.ends_with("+json") => Media::Json,
        name if name.starts_with("text/") || name.ends_with("+xml") && name != "image/svg+xml" => Media::Text,
        _ => return Err(EgressError::Media(name.chars().take(100).collect())),
    };
    let charset = parts.find_map(|part| part.strip_prefix("charset="));
    Ok((media, charset.map(|name| name.trim_matches(['"', '\'', ' ']).to_owned())))
}

/// Reads a body up to its limits.
pub(crate) async fn body(
    mut response: Response,
    limits: &FetchLimits,
    until: Instant,
) -> Result<(Vec<u8>, Option<Truncation>), reqwest::Error> {
    let mut body = Vec::new();
    loop {
        match timeout_at(until, response.chunk()).await {
            Err(_) => return Ok((body, Some(Truncation::Time(limits.time)))),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(None)) => return Ok((body, None)),
            Ok(Ok(Some(chunk))) => {
                let room = limits.bytes - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return Ok((body, Some(Truncation::Size(limits.bytes))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn read(content_type: &'static str) -> Result<(Media, Option<String>), EgressError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        media(&headers)
    }

    #[test]
    fn text_is_read_and_nothing_else() {
        let charset = |name: &str| Some(name.to_owned());
        let table = [
            ("text/html", Media::Html, None),
            ("Text/HTML; Charset=\"UTF-8\"", Media::Html, charset("utf-8")),
            ("text/html;level=1;charset=iso-8859-1", Media::Html, charset("iso-8859-1")),
            ("application/xhtml+xml", Media::Html, None),
            ("application/json", Media::Json, None),
            ("application/activity+json; charset=utf-8", Media::Json, charset("utf-8")),
            ("text/plain", Media::Text, None),
            ("text/markdown; charset=", Media::Text, charset("")),
            ("application/rss+xml", Media::Text, None),
        ];
        for (content_type, media, charset) in table {
            assert_eq!(read(content_type), Ok((media, charset)), "{content_type}");
        }
        for other in ["", "image/png", "image/svg+xml", "application/pdf", "application/octet-stream", "html"]
        {
            assert_eq!(read(other), Err(EgressError::Media(other.to_owned())), "{other}");
        }
        assert_eq!(media(&HeaderMap::new()), Err(EgressError::Media(String::new())));
    }

    #[test]
    fn a_compressed_body_is_not_read() {
        for (encoding, expected) in
            [("gzip", Err(EgressError::Compressed)), ("identity", Ok((Media::Text, None)))]
        {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
            assert_eq!(media(&headers), expected, "{encoding}");
        }
    }
}
