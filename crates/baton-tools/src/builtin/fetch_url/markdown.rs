//! Markdown from an outline.
//!
//! Tables are written without padding: it costs a model tokens and, with one long cell among thousands of rows, the
//! process all its memory.

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::options::{BulletListMarker, Options};
use htmd::{Element, HtmlToMarkdown};

/// The Markdown of an outline.
pub(super) fn from_outline(outline: &str) -> String {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder()
        .options(options)
        .add_handler(vec!["table"], table)
        .add_handler(vec!["tbody"], inside)
        .add_handler(vec!["tr"], row)
        .add_handler(vec!["td"], cell)
        .build();
    // The conversion does no I/O, so it cannot fail.
    converter.convert(outline).unwrap_or_default()
}

fn inside(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    Some(handlers.walk_children(element.node))
}

/// The first row is the head, whether the page says so or not: Markdown knows no table without one.
fn table(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let content = handlers.walk_children(element.node).content;
    let mut rows = content.lines().filter(|line| !line.trim().is_empty());
    let Some(head) = rows.next() else { return Some("".into()) };
    let columns = head.replace("\\|", "").matches('|').count().saturating_sub(1);
    let mut table = format!("\n\n{head}\n|{}\n", " --- |".repeat(columns));
    for row in rows {
        table.push_str(row);
        table.push('\n');
    }
    table.push('\n');
    Some(table.into())
}

fn row(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let cells = handlers.walk_children(element.node).content;
    Some(format!("|{}\n", cells.trim_end()).into())
}

fn cell(handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
    let content = handlers.walk_children(element.node).content;
    let line = content.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    Some(format!(" {line} |").into())
}
