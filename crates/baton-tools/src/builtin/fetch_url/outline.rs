//! A page's markup, written anew: balanced, shallow, and only what Markdown has a word for.
//!
//! What turns HTML into Markdown builds a tree as browsers do and walks it by recursion. A page of two megabytes can
//! make that tree a million levels deep, or, by formatting that is never closed, larger than any memory. So it
//! is never shown a page, but this: at most [`MAX_DEPTH`] levels and [`MAX_ELEMENTS`] elements, every one of them closed
//! in order. Where a page has more, its text goes on without the markup, and [`Outline::flattened`] says so.

use std::collections::HashMap;

use reqwest::Url;

use super::tokens::{Tag, Token, Tokens};

/// How deep elements are nested at most.
pub(super) const MAX_DEPTH: usize = 64;
/// How many elements there are at most.
pub(super) const MAX_ELEMENTS: usize = 20_000;
/// How many lists and quotations are nested at most: each indents every line inside.
const MAX_INDENTS: usize = 8;
/// The longest address of a link that is shown.
const MAX_LINK: usize = 2000;

/// What is left of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outline {
    /// What the page is called, on one line.
    pub(super) title: Option<String>,
    /// Its markup.
    pub(super) html: String,
    /// Whether some of the markup was left out to keep it small.
    pub(super) flattened: bool,
}

/// What becomes of an element.
enum Fate {
    /// It begins and ends a block.
    Block(&'static str),
    /// It formats text inside a block.
    Inline(&'static str),
    /// It has no content.
    Void(&'static str),
    /// It is left out with all that is in it.
    Dropped,
    /// Its content stays, without it.
    Bare,
}

/// The outline of a page that lies at an address.
pub(super) fn of(page: &str, base: &Url) -> Outline {
    let mut writer = Writer::default();
    let mut title = None;
    // The dropped element that is being read, and how many of its kind are open.
    let mut dropped: Option<(String, usize)> = None;
    let mut raw_title = false;
    for token in Tokens::of(page) {
        if let Some((name, depth)) = &mut dropped {
            match token {
                Token::Open(tag) if tag.name == *name && !tag.empty => *depth += 1,
                Token::Close(closed) if closed == *name => *depth -= 1,
                _ => {}
            }
            if *depth == 0 {
                dropped = None;
            }
            continue;
        }
        match token {
            Token::Text("<") => writer.html.push_str("&lt;"),
            Token::Text(text) => writer.html.push_str(text),
            Token::Raw(text) if raw_title && title.is_none() => title = one_line(text),
            Token::Raw(_) => {}
            Token::Open(tag) => {
                raw_title = tag.name == "title";
                match fate(&tag.name) {
                    Fate::Dropped if !tag.empty => dropped = Some((tag.name, 1)),
                    fate => writer.open(&fate, &tag, base),
                }
            }
            Token::Close(name) => match fate(&name) {
                Fate::Block(name) | Fate::Inline(name) => writer.close(name),
                Fate::Void(_) | Fate::Dropped | Fate::Bare => {}
            },
        }
    }
    writer.close_down_to(0);
    Outline { title, html: writer.html, flattened: writer.flattened }
}

fn fate(name: &str) -> Fate {
    match name {
        "h1" => Fate::Block("h1"),
        "h2" => Fate::Block("h2"),
        "h3" => Fate::Block("h3"),
        "h4" => Fate::Block("h4"),
        "h5" => Fate::Block("h5"),
        "h6" => Fate::Block("h6"),
        "p" | "dt" | "dd" => Fate::Block("p"),
        "ul" | "menu" => Fate::Block("ul"),
        "ol" => Fate::Block("ol"),
        "li" => Fate::Block("li"),
        "blockquote" => Fate::Block("blockquote"),
        "pre" | "listing" => Fate::Block("pre"),
        "table" => Fate::Block("table"),
        "tr" => Fate::Block("tr"),
        "td" | "th" => Fate::Block("td"),
        "div" | "section" | "article" | "main" | "header" | "footer" | "nav" | "aside" | "address"
        | "figure" | "figcaption" | "details" | "summary" | "dl" | "form" | "fieldset" | "center" => {
            Fate::Block("div")
        }
        "b" | "strong" => Fate::Inline("b"),
        "i" | "em" => Fate::Inline("i"),
        "code" | "kbd" | "samp" | "tt" => Fate::Inline("code"),
        "a" => Fate::Inline("a"),
        "br" => Fate::Void("br"),
        "hr" => Fate::Void("hr"),
        "svg" | "template" | "object" | "audio" | "video" | "canvas" | "select" | "datalist" => Fate::Dropped,
        _ => Fate::Bare,
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
struct Writer {
    html: String,
    /// What is open, outermost first.
    open: Vec<&'static str>,
    /// What would be open, had there been room.
    unwritten: HashMap<&'static str, usize>,
    elements: usize,
    flattened: bool,
}

impl Writer {
    fn open(&mut self, fate: &Fate, tag: &Tag<'_>, base: &Url) {
        match *fate {
            Fate::Block(name) => {
                self.close_implied(name);
                if !matches!(name, "tr" | "td") || self.open.contains(&"table") {
                    self.write(name, None);
                }
            }
            Fate::Inline("a") => {
                self.close("a");
                if let Some(link) = tag.href.and_then(|href| absolute(href, base)) {
                    self.write("a", Some(&link));
                }
            }
            Fate::Inline(name) => self.write(name, None),
            Fate::Void(name) if self.elements < MAX_ELEMENTS => {
                self.elements += 1;
                self.html.push_str(&format!("<{name}>"));
            }
            Fate::Void(_) => self.flattened = true,
            Fate::Bare if tag.name == "img" => {
                self.html.push_str(&escaped(&plain(tag.alt.unwrap_or_default())))
            }
            Fate::Bare | Fate::Dropped => {}
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

    /// Closes what the beginning of a block ends without saying so.
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
