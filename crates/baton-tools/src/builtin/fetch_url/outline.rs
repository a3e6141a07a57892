//! The outline of a page: its markup, rewritten to be balanced and shallow, with only the elements that Markdown knows.
//!
//! The converter from HTML to Markdown builds a tree as browsers do and walks it by recursion. A page of two megabytes
//! can make that tree a million levels deep, or, by formatting that is never closed, larger than any memory. So the
//! converter gets no page, but this outline: at most [`MAX_DEPTH`] levels and [`MAX_ELEMENTS`] elements, every one of
//! them closed in order. Where a page has more, its text goes on without the markup, and [`Outline::flattened`] says
//! so.

use std::collections::HashMap;

use reqwest::Url;

use super::tokens::{HtmlToken, HtmlTokens, StartTag};

/// How deep elements are nested at most.
pub(super) const MAX_DEPTH: usize = 64;
/// How many elements there are at most.
pub(super) const MAX_ELEMENTS: usize = 20_000;
/// How many lists and quotations are nested at most: each indents every line inside.
const MAX_INDENTS: usize = 8;
/// The longest address of a link that is shown.
const MAX_LINK: usize = 2000;

/// A page reduced to the markup that becomes Markdown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outline {
    /// The title of the page, on one line.
    pub(super) title: Option<String>,
    /// The reduced markup.
    pub(super) html: String,
    /// Whether some of the markup was left out to keep it small.
    pub(super) flattened: bool,
}

/// How an element is written.
enum ElementRule {
    /// It begins and ends a block.
    Block(&'static str),
    /// It formats text inside a block.
    Inline(&'static str),
    /// It has no content.
    Void(&'static str),
    /// It is left out with all that is in it.
    Dropped,
    /// Its content stays, without its tags.
    Unwrapped,
}

/// The outline of a page; `base` is its address, which relative links start from.
pub(super) fn from_html(page: &str, base: &Url) -> Outline {
    let mut writer = OutlineWriter::default();
    let mut title = None;
    // The dropped element that is being read, and how many of its kind are open.
    let mut dropped: Option<(String, usize)> = None;
    let mut raw_title = false;
    for token in HtmlTokens::new(page) {
        if let Some((name, depth)) = &mut dropped {
            match token {
                HtmlToken::Open(tag) if tag.name == *name && !tag.empty => *depth += 1,
                HtmlToken::Close(closed) if closed == *name => *depth -= 1,
                _ => {}
            }
            if *depth == 0 {
                dropped = None;
            }
            continue;
        }
        match token {
            HtmlToken::Text("<") => writer.html.push_str("&lt;"),
            HtmlToken::Text(text) => writer.html.push_str(text),
            HtmlToken::Raw(text) if raw_title && title.is_none() => title = one_line(text),
            HtmlToken::Raw(_) => {}
            HtmlToken::Open(tag) => {
                raw_title = tag.name == "title";
                match rule(&tag.name) {
                    ElementRule::Dropped if !tag.empty => dropped = Some((tag.name, 1)),
                    rule => writer.open(&rule, &tag, base),
                }
            }
            HtmlToken::Close(name) => match rule(&name) {
                ElementRule::Block(name) | ElementRule::Inline(name) => writer.close(name),
                ElementRule::Void(_) | ElementRule::Dropped | ElementRule::Unwrapped => {}
            },
        }
    }
    writer.close_down_to(0);
    Outline { title, html: writer.html, flattened: writer.flattened }
}

fn rule(name: &str) -> ElementRule {
    match name {
        "h1" => ElementRule::Block("h1"),
        "h2" => ElementRule::Block("h2"),
        "h3" => ElementRule::Block("h3"),
        "h4" => ElementRule::Block("h4"),
        "h5" => ElementRule::Block("h5"),
        "h6" => ElementRule::Block("h6"),
        "p" | "dt" | "dd" => ElementRule::Block("p"),
        "ul" | "menu" => ElementRule::Block("ul"),
        "ol" => ElementRule::Block("ol"),
        "li" => ElementRule::Block("li"),
        "blockquote" => ElementRule::Block("blockquote"),
        "pre" | "listing" => ElementRule::Block("pre"),
        "table" => ElementRule::Block("table"),
        "tr" => ElementRule::Block("tr"),
        "td" | "th" => ElementRule::Block("td"),
        "div" | "section" | "article" | "main" | "header" | "footer" | "nav" | "aside" | "address"
        | "figure" | "figcaption" | "details" | "summary" | "dl" | "form" | "fieldset" | "center" => {
            ElementRule::Block("div")
        }
        "b" | "strong" => ElementRule::Inline("b"),
        "i" | "em" => ElementRule::Inline("i"),
        "code" | "kbd" | "samp" | "tt" => ElementRule::Inline("code"),
        "a" => ElementRule::Inline("a"),
        "br" => ElementRule::Void("br"),
        "hr" => ElementRule::Void("hr"),
        "svg" | "template" | "object" | "audio" | "video" | "canvas" | "select" | "datalist" => {
            ElementRule::Dropped
        }
        _ => ElementRule::Unwrapped,
    }
}

fn is_inline(name: &str) -> bool {
    matches!(name, "b" | "i" | "code" | "a")
}

fn indents(name: &str) -> bool {
    matches!(name, "ul" | "ol" | "blockquote")
}

fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

/// Whether the search for an open element, from the inside out, ends at another one.
fn ends_search(sought: &str, seen: &str) -> bool {
    match sought {
        "table" => false,
        "tr" | "td" => seen == "table",
        "li" => matches!(seen, "ul" | "ol" | "td" | "table"),
        sought if is_inline(sought) => !is_inline(seen),
        _ => matches!(seen, "td" | "table"),
    }
}

#[derive(Default)]
struct OutlineWriter {
    html: String,
    /// The open elements, outermost first.
    open: Vec<&'static str>,
    /// The open elements of the page that were not written because a limit was reached, by name.
    unwritten: HashMap<&'static str, usize>,
    elements: usize,
    flattened: bool,
}

impl OutlineWriter {
    fn open(&mut self, rule: &ElementRule, tag: &StartTag<'_>, base: &Url) {
        match *rule {
            ElementRule::Block(name) => {
                self.close_implied(name);
                if !matches!(name, "tr" | "td") || self.open.contains(&"table") {
                    self.write(name, None);
                }
            }
            ElementRule::Inline("a") => {
                self.close("a");
                if let Some(link) = tag.href.and_then(|href| absolute(href, base)) {
                    self.write("a", Some(&link));
                }
            }
            ElementRule::Inline(name) => self.write(name, None),
            ElementRule::Void(name) if self.elements < MAX_ELEMENTS => {
                self.elements += 1;
                self.html.push_str(&format!("<{name}>"));
            }
            ElementRule::Void(_) => self.flattened = true,
            ElementRule::Unwrapped if tag.name == "img" => {
                self.html.push_str(&escaped(&plain(tag.alt.unwrap_or_default())))
            }
            ElementRule::Unwrapped | ElementRule::Dropped => {}
        }
    }

    fn write(&mut self, name: &'static str, link: Option<&str>) {
        let nested = self.open.iter().filter(|open| indents(open)).count();
        let is_full = self.open.len() >= MAX_DEPTH || self.elements >= MAX_ELEMENTS;
        if is_full || indents(name) && nested >= MAX_INDENTS {
            self.flattened = true;
            *self.unwritten.entry(name).or_default() += 1;
            self.html.push(' ');
            return;
        }
        self.elements += 1;
        self.open.push(name);
        match link {
            Some(link) => self.html.push_str(&format!("<{name} href=\"{}\">", escaped(link))),
            None => self.html.push_str(&format!("<{name}>")),
        }
    }

    fn close(&mut self, name: &'static str) {
        if let Some(count) = self.unwritten.get_mut(name).filter(|count| **count > 0) {
            *count -= 1;
            self.html.push(' ');
        } else if let Some(at) = self.find(name) {
            self.close_down_to(at);
        }
    }

    /// Closes the elements that the beginning of a block ends implicitly.
    fn close_implied(&mut self, name: &'static str) {
        if let Some(at) = self.find("p") {
            self.close_down_to(at);
        }
        let siblings: &[&str] = match name {
            "li" => &["li"],
            "tr" => &["tr", "td"],
            "td" => &["td"],
            _ => &[],
        };
        if let Some(at) = siblings.iter().find_map(|sibling| self.find(sibling)) {
            self.close_down_to(at);
        }
        if is_heading(name) && self.open.last().is_some_and(|open| is_heading(open)) {
            self.close_down_to(self.open.len() - 1);
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        let mut open = self.open.iter().enumerate().rev();
        open.find(|(_, seen)| **seen == name || ends_search(name, seen))
            .filter(|(_, seen)| **seen == name)
            .map(|(at, _)| at)
    }

    fn close_down_to(&mut self, depth: usize) {
        for name in self.open.drain(depth..).rev() {
            self.html.push_str(&format!("</{name}>"));
        }
    }
}

/// Where a link leads, if it leads to a page.
fn absolute(href: &str, base: &Url) -> Option<String> {
    let url = base.join(plain(href).trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    (url.as_str().len() <= MAX_LINK).then(|| url.into())
}

fn one_line(text: &str) -> Option<String> {
    let title = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then_some(title)
}

/// Text with the common character references resolved.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let reference =
            rest[1..].char_indices().take(10).find(|(_, c)| *c == ';').map(|(end, _)| &rest[1..=end]);
        match reference.and_then(character) {
            Some(character) => {
                plain.push(character);
                rest = &rest[reference.map_or(0, str::len) + 2..];
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn character(reference: &str) -> Option<char> {
    if let Some(number) = reference.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return code.ok().and_then(char::from_u32).filter(|c| !c.is_control());
    }
    Some(match reference {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "middot" => '·',
        "bull" => '•',
        "raquo" => '»',
        "laquo" => '«',
        "copy" => '©',
        _ => return None,
    })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
