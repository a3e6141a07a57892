//! Provenance of addresses: whether an address is among the results of a search. A visit to such an address carries out
//! no word that the model wrote: it tells only which of the results was chosen. That is a small channel, and not none.
//! A visit to any other address may carry out anything in it.
//!
//! Only the `url` of a result counts, never an address in a title or a snippet: those are text from strangers. Of a
//! list that was too long to be shown whole, only the results that are shown whole count. Pure: no I/O.

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

/// The beginning and the end of the list where it was turned into text.
const BEGIN: &str = "{\"results\":[";
const END: &str = "]}";

#[derive(Deserialize)]
struct SearchResultList {
    results: Vec<ResultUrl>,
}

#[derive(Deserialize)]
struct ResultUrl {
    url: String,
}

/// A result with nothing left out: a result in an abridged list counts only with all of these fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeResult {
    #[serde(rename = "title")]
    _title: String,
    url: String,
    #[serde(rename = "snippet")]
    _snippet: String,
}

/// Whether an address is among the results of searches; `search_results` are results of `web_search` as they are
/// stored.
///
/// Addresses are equal if they make the same request: scheme, host, port, path and query, as parsed. Fragments are not
/// sent and do not count. An address with a user name or a password never counts as a result.
pub fn is_search_result(url: &str, search_results: &[Value]) -> bool {
    let Some(wanted) = comparable(url) else { return false };
    search_results.iter().flat_map(urls).any(|result| comparable(&result).as_ref() == Some(&wanted))
}

/// An address in the form that is compared.
fn comparable(text: &str) -> Option<Url> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let mut url = Url::parse(text).ok().filter(Url::has_host)?;
    if !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    // A parser drops an empty user name, which no honest address has.
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
        whole => match SearchResultList::deserialize(whole) {
            Ok(list) => list.results.into_iter().map(|result| result.url).collect(),
            Err(_) => Vec::new(),
        },
    }
}

/// The addresses of a list of which the middle was left out: of the results before the gap, and of those behind it.
fn abridged(text: &str) -> Vec<String> {
    let Some(list) = text.strip_prefix(BEGIN) else { return Vec::new() };
    let (mut urls, rest) = whole_results(list);
    // Behind the gap, the text may begin in the middle of a stranger's words. But it is read as results up to the very
    // end of the list or not at all: begun inside a string, the last quotation mark would open another.
    let starts = rest.match_indices("{\"").map(|(at, _)| &rest[at..]);
    let behind = starts.map(whole_results).find(|(_, rest)| *rest == END);
    urls.extend(behind.map(|(urls, _)| urls).unwrap_or_default());
    urls
}

/// The addresses of the whole results that a text begins with, and the text behind them.
fn whole_results(mut text: &str) -> (Vec<String>, &str) {
    let mut urls = Vec::new();
    loop {
        let mut stream = serde_json::Deserializer::from_str(text).into_iter::<WholeResult>();
        let Some(Ok(result)) = stream.next() else { return (urls, text) };
        text = &text[stream.byte_offset()..];
        urls.push(result.url);
        match text.strip_prefix(',') {
            Some(rest) => text = rest,
            None => return (urls, text),
        }
    }
}

#[cfg(test)]
mod tests;
