//! `fetch_url`: the content of a web page, as text that a model can read.
//!
//! The address comes from a model, so it is visited through [`EgressClient`] and nothing else. HTML becomes Markdown,
//! JSON and other text stay as they are. Pages are hostile: their markup is brought into a small, bounded form
//! ([`outline`]) before anything that recurses sees it.
//!
//! Nothing here runs scripts, loads pictures or frames, or follows links.

mod charset;
mod markdown;
mod outline;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use baton_core::tool::{self, EffectClass, Trust};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::egress::{EgressClient, EgressError, FetchedPage, Media, Truncation};
use crate::tool::{Tool, ToolError};
use crate::typed::{ToolInfo, off_thread, typed};

/// The time for converting the page, beyond the limit for fetching it.
const CONVERT_TIME: Duration = Duration::from_secs(5);
/// The longest title that is shown, in characters.
const MAX_TITLE: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchUrlArguments {
    /// The address of the page, with https://.
    #[schemars(length(min = 1, max = 4096))]
    url: String,
}

/// The tool `fetch_url`, with the client that it fetches pages through.
pub fn fetch_url(egress: EgressClient) -> Arc<dyn Tool> {
    let about = ToolInfo {
        name: "fetch_url",
        description: "Reads a web page or another text (HTML, JSON, plain text) from an address on the public internet \
                      and returns it as Markdown, with its title and final address. Use it to read a page that a \
                      search found or that the user named.",
        class: EffectClass::SideEffectFree,
        timeout_ms: u64::try_from((egress.time() + CONVERT_TIME).as_millis()).unwrap_or(u64::MAX),
        trust: Trust { untrusted_output: true, egress: tool::Egress::UnlessFound, ..Trust::BUILT_IN },
    };
    typed(about, move |arguments: FetchUrlArguments, _| {
        let egress = egress.clone();
        async move {
            let page = egress.get(&arguments.url).await.map_err(tool_error)?;
            off_thread(move || render(&page)).await
        }
    })
}

fn tool_error(error: EgressError) -> ToolError {
    let (before_start, cause) = (error.is_before_start(), error.cause());
    ToolError { message: error.to_string(), before_start, unknown: false, cause }
}

/// A page as the model sees it: title, address and notes come first, so that they are seen however long the page is.
fn render(page: &FetchedPage) -> String {
    let mut notes = Vec::new();
    match page.cut {
        None => {}
        Some(Truncation::Size(bytes)) => {
            notes.push(format!("The page is longer than {bytes} bytes: the rest is left out."))
        }
        Some(Truncation::Time(limit)) => notes.push(format!(
            "The page was not complete after {} s: the rest is left out.",
            limit.as_secs_f64()
        )),
    }
    let (text, unread) = charset::decode(page);
    notes.extend(unread);
    let (title, body) = match page.media {
        Media::Json | Media::Text => (None, text),
        Media::Html => {
            let outline = outline::from_html(&text, &page.url);
            if outline.flattened {
                notes.push(
                    "The markup is too deep or too long: some of it is shown as plain text.".to_owned(),
                );
            }
            (outline.title, markdown::from_outline(&outline.html))
        }
    };
    let mut rendered = String::new();
    if let Some(title) = title {
        rendered.push_str(&format!("Title: {}\n", title.chars().take(MAX_TITLE).collect::<String>()));
    }
    rendered.push_str(&format!("Address: {}\n", page.url));
    notes.iter().for_each(|note| rendered.push_str(&format!("Note: {note}\n")));
    rendered.push('\n');
    rendered.push_str(if body.trim().is_empty() { "[The page holds no text.]" } else { &body });
    rendered
}

#[cfg(test)]
mod tests;
