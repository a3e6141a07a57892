//! A span of Markdown, whole, as text with styles.

use std::fmt::Write;

use anstyle::{Reset, Style};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::terminal::{BOLD, CODE};

/// Renders a span that stands in a text of this style.
pub(super) fn span(text: &str, around: Option<Style>) -> String {
    let mut ink = Ink::default();
    if let Some(style) = around {
        ink.open(style);
    }
    for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH) {
        ink.event(event);
    }
    if around.is_some() {
        ink.close();
    }
    ink.out
}

#[derive(Default)]
struct Ink {
    out: String,
    /// The styles that are open.
    styles: Vec<Style>,
    /// The target of the link that is open, and where its text begins.
    link: Option<(String, usize)>,
}

impl Ink {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(Tag::Strong) => self.open(BOLD),
            Event::Start(Tag::Emphasis) => self.open(Style::new().italic()),
            Event::Start(Tag::Strikethrough) => self.open(Style::new().strikethrough()),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                self.link = Some((dest_url.into_string(), self.out.len()));
            }
            Event::End(TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough) => self.close(),
            Event::End(TagEnd::Link | TagEnd::Image) => self.end_link(),
            Event::Code(text) => {
                self.open(CODE);
                self.out.push_str(&text);
                self.close();
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.out.push_str(&text),
            _ => {} // elements that cannot be within a line
        }
    }

    /// The target is shown unless it is the text.
    fn end_link(&mut self) {
        if let Some((target, begin)) = self.link.take()
            && self.out.get(begin..) != Some(target.as_str())
        {
            let _ = write!(self.out, " ({target})");
        }
    }

    fn open(&mut self, style: Style) {
        self.styles.push(style);
        let _ = write!(self.out, "{style}");
    }

    /// Closes the innermost style; the outer ones begin again, because a reset ends them all.
    fn close(&mut self) {
        self.styles.pop();
        let _ = write!(self.out, "{Reset}");
        for style in &self.styles {
            let _ = write!(self.out, "{style}");
        }
    }
}
