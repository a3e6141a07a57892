//! Which addresses a search found. To visit one of them carries out no word that the model wrote: all that it tells
//! is which of those that were found was chosen. That is a small channel, and not none. To visit any other address may
//! carry out anything in it.
//!
//! Only the `url` of a result counts, never an address in a title or a snippet: those are text from strangers. Of a
//! list that was too long to be shown whole, only the results that are shown whole count. Pure: nothing is asked.

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

/// How the list begins and ends where it was turned into text.
const BEGIN: &str = "{\"results\":[";
const END: &str = "]}";

#[derive(Deserialize)]
struct Found {
    results: Vec<Hit>,
}

#[derive(Deserialize)]
struct Hit {
    url: String,
}

/// A result with nothing left out: what stands in an abridged list has to be all of this.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeHit {
    #[serde(rename = "title")]
    _title: String,
    url: String,
    #[serde(rename = "snippet")]
    _snippet: String,
}

/// Whether an address is among what searches found; `search_results` are results of `web_search` as they are stored.
///
/// Addresses are the same if they are the same to whoever is asked for them: scheme, host, port, path and
/// query, as parsed. Fragments are not sent and do not count. An address with a user name or a password is never found.
pub fn is_found(url: &str, search_results: &[Value]) -> bool {
    let Some(wanted) = address(url) else { return false };
    search_results.iter().flat_map(urls).any(|found| address(&found).as_ref() == Some(&wanted))
}

/// An address as it is compared.
fn address(text: &str) -> Option<Url> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let mut url = Url::parse(text).ok().filter(Url::has_host)?;
    if !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    // A parser forgets an empty user name; nobody who means well writes one.
    let (_, rest) = text.split_once(':')?;
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    url.set_fragment(None);
    (!authority.contains('@')).then_some(url)
}

/// The addresses of one stored result.
fn urls(result: &Value) -> Vec<String> {
    match result {
        Value::String(text) => abridged(text),
        whole => match Found::deserialize(whole) {
            Ok(found) => found.results.into_iter().map(|hit| hit.url).collect(),
            Err(_) => Vec::new(),
        },
    }
}

/// The addresses of a list of which the middle was left out: of the results before the gap, and of those behind it.
fn abridged(text: &str) -> Vec<String> {
    let Some(list) = text.strip_prefix(BEGIN) else { return Vec::new() };
    let (mut found, rest) = hits(list);
    // Behind the gap, the text may begin in the middle of a stranger's words. But it is read as results up to the very
    // end of the list or not at all: begun inside a string, the last quotation mark would open another.
    let starts = rest.match_indices("{\"").map(|(at, _)| &rest[at..]);
    let behind = starts.map(hits).find(|(_, rest)| *rest == END);
    found.extend(behind.map(|(hits, _)| hits).unwrap_or_default());
    found
}

/// The addresses of as many whole results as a text begins with, and what follows them.
fn hits(mut text: &str) -> (Vec<String>, &str) {
    let mut found = Vec::new();
    loop {
        let mut reading = serde_json::Deserializer::from_str(text).into_iter::<WholeHit>();
        let Some(Ok(hit)) = reading.next() else { return (found, text) };
        text = &text[reading.byte_offset()..];
        found.push(hit.url);
        match text.strip_prefix(',') {
            Some(rest) => text = rest,
            None => return (found, text),
        }
    }
}

#[cfg(test)]
mod tests;
