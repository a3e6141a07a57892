//! One block of Markdown as text with styles.

use std::fmt::Write;

use anstyle::{Reset, Style};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::terminal::{BOLD, CODE};

/// Renders a complete block; the result ends with a line break.
pub(super) fn render(block: &str) -> String {
    if block.trim_start().starts_with('|') {
        return complete(block.to_owned());
    }
    let mut ink = Ink::default();
    for event in Parser::new_ext(block, Options::ENABLE_STRIKETHROUGH) {
        ink.event(event);
    }
    complete(ink.out)
}

fn complete(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[derive(Default)]
struct Ink {
    out: String,
    /// The styles that are open.
    styles: Vec<Style>,
    /// The lists that are open, with the next number of those that have numbers.
    lists: Vec<Option<u64>>,
    /// How deep quotes are nested.
    quotes: usize,
    in_code: bool,
    /// The target of the link that is open, and where its text begins.
    link: Option<(String, usize)>,
}

impl Ink {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => self.code(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.out.push_str(&text),
            Event::Code(text) => {
                self.open(CODE);
                self.out.push_str(&text);
                self.close();
            }
            Event::SoftBreak | Event::HardBreak => self.fresh_line(),
            Event::Rule => self.out.push_str("────────\n"),
            Event::TaskListMarker(done) => self.out.push_str(if done { "[x] " } else { "[ ] " }),
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.out.push_str(&text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => self.open(BOLD),
            Tag::Strong => self.open(BOLD),
            Tag::Emphasis => self.open(Style::new().italic()),
            Tag::Strikethrough => self.open(Style::new().strikethrough()),
            Tag::BlockQuote(_) => {
                self.quotes += 1;
                self.fresh_line();
            }
            Tag::CodeBlock(_) => {
                self.end_line();
                self.in_code = true;
            }
            Tag::List(first) => {
                self.lists.push(first);
                if self.lists.len() > 1 {
                    self.end_line();
                }
            }
            Tag::Item => self.item(),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some((dest_url.into_string(), self.out.len()));
            }
            Tag::Paragraph if self.quotes > 0 && self.out.is_empty() => self.margin(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.close();
                self.end_line();
            }
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => self.close(),
            TagEnd::BlockQuote(_) => self.quotes = self.quotes.saturating_sub(1),
            TagEnd::CodeBlock => {
                self.in_code = false;
                self.end_line();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Paragraph | TagEnd::Item => self.end_line(),
            TagEnd::Link | TagEnd::Image => {
                if let Some((target, begin)) = self.link.take()
                    && self.out.get(begin..) != Some(target.as_str())
                {
                    let _ = write!(self.out, " ({target})");
                }
            }
            _ => {}
        }
    }

    fn item(&mut self) {
        self.end_line();
        let depth = self.lists.len().saturating_sub(1);
        self.margin();
        self.out.push_str(&"  ".repeat(depth));
        match self.lists.last_mut() {
            Some(Some(number)) => {
                let _ = write!(self.out, "{number}. ");
                *number += 1;
            }
            _ => self.out.push_str("• "),
        }
    }

    fn code(&mut self, text: &str) {
        for line in text.lines() {
            self.margin();
            let _ = writeln!(self.out, "    {CODE}{line}{CODE:#}");
        }
    }

    /// The next line, with what stands before every line here.
    fn fresh_line(&mut self) {
        self.end_line();
        self.margin();
        if !self.lists.is_empty() {
            self.out.push_str(&"  ".repeat(self.lists.len()));
        }
    }

    fn margin(&mut self) {
        self.out.push_str(&"│ ".repeat(self.quotes));
    }

    fn end_line(&mut self) {
        let is_fresh = self.out.is_empty() || self.out.ends_with('\n') || self.out.ends_with("│ ");
        if !is_fresh {
            self.out.push('\n');
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
