//! Tokenizer for HTML: text, tags, and the raw content of elements that hold no markup.
//!
//! It is as forgiving as browsers are where pages need it, takes time linear in the page, and recurses nowhere. It is
//! not a browser's tokenizer, and need not agree with one: the markup is rewritten from its tokens.

/// A token of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HtmlToken<'a> {
    /// Text between tags, with character references as written.
    Text(&'a str),
    /// The content of an element like `script`, in which tags are text.
    Raw(&'a str),
    /// The beginning of an element.
    Open(StartTag<'a>),
    /// The end of an element, by its name in lower case.
    Close(String),
}

/// A beginning tag.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StartTag<'a> {
    /// In lower case.
    pub(super) name: String,
    /// The address of a link, as written.
    pub(super) href: Option<&'a str>,
    /// The description of a picture, as written.
    pub(super) alt: Option<&'a str>,
    /// Whether it ends itself: `<br/>`.
    pub(super) empty: bool,
}

/// Elements whose content is no markup.
const RAW: [&str; 9] =
    ["script", "style", "title", "textarea", "iframe", "noembed", "noframes", "noscript", "xmp"];

/// The longest name of an element that is recognized.
const MAX_NAME: usize = 32;

/// The tokens of a page, in order.
pub(super) struct HtmlTokens<'a> {
    rest: &'a str,
    raw: Option<&'static str>,
}

impl<'a> HtmlTokens<'a> {
    pub(super) fn new(page: &'a str) -> Self {
        HtmlTokens { rest: page, raw: None }
    }

    /// Takes `bytes` bytes off the rest.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// Takes everything up to and with a mark, or all there is.
    fn skip_past(&mut self, mark: &str) {
        let end = self.rest.find(mark).map_or(self.rest.len(), |at| at + mark.len());
        self.take(end);
    }

    fn tag(&mut self, name_at: usize) -> StartTag<'a> {
        self.take(name_at);
        let end = self.rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>'));
        let name = self.take(end.unwrap_or(self.rest.len()));
        let mut tag = StartTag { name: short(name), ..StartTag::default() };
        let rest = self.rest;
        let end = attributes(rest, &mut tag);
        self.take(end);
        tag
    }
}

impl<'a> Iterator for HtmlTokens<'a> {
    type Item = HtmlToken<'a>;

    fn next(&mut self) -> Option<HtmlToken<'a>> {
        if let Some(name) = self.raw.take() {
            let end = end_of_raw(self.rest, name);
            return Some(HtmlToken::Raw(self.take(end)));
        }
        loop {
            let mut start = self.rest.chars();
            match (start.next()?, start.next()) {
                ('<', Some('a'..='z' | 'A'..='Z')) => {
                    let tag = self.tag(1);
                    self.raw = RAW.into_iter().find(|raw| *raw == tag.name);
                    return Some(HtmlToken::Open(tag));
                }
                ('<', Some('/')) if start.next().is_some_and(|c| c.is_ascii_alphabetic()) => {
                    return Some(HtmlToken::Close(self.tag(2).name));
                }
                ('<', Some('!')) if self.rest.starts_with("<!--") => {
                    // The dashes of the beginning may be those of the end: `<!-->`.
                    self.take(2);
                    self.skip_past("-->");
                }
                ('<', Some('!' | '?' | '/')) => self.skip_past(">"),
                ('<', _) => return Some(HtmlToken::Text(self.take(1))),
                _ => {
                    let end = self.rest.find('<').unwrap_or(self.rest.len());
                    return Some(HtmlToken::Text(self.take(end)));
                }
            }
        }
    }
}

fn short(name: &str) -> String {
    if name.len() > MAX_NAME { String::new() } else { name.to_ascii_lowercase() }
}

/// Where the end tag of a raw element begins.
fn end_of_raw(rest: &str, name: &str) -> usize {
    let ends = |at: &usize| {
        let after = rest.as_bytes().get(at + 2..at + 2 + name.len());
        after.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    };
    rest.match_indices("</").map(|(at, _)| at).find(ends).unwrap_or(rest.len())
}

/// Reads attributes up to the end of the tag, and says where that is.
fn attributes<'a>(text: &'a str, tag: &mut StartTag<'a>) -> usize {
    let bytes = text.as_bytes();
    let skip = |mut at: usize, while_: fn(&u8) -> bool| {
        while bytes.get(at).is_some_and(while_) {
            at += 1;
        }
        at
    };
    let mut at = 0;
    loop {
        at = skip(at, |b| b.is_ascii_whitespace() || *b == b'=');
        match bytes.get(at) {
            None => return at,
            Some(b'>') => return at + 1,
            Some(b'/') => {
                at += 1;
                tag.empty = bytes.get(at) == Some(&b'>');
                continue;
            }
            Some(_) => {}
        }
        let name_end = skip(at, |b| !b.is_ascii_whitespace() && !matches!(b, b'=' | b'>' | b'/'));
        let name = &text[at..name_end];
        at = skip(name_end, u8::is_ascii_whitespace);
        if bytes.get(at) != Some(&b'=') {
            continue;
        }
        at = skip(at + 1, u8::is_ascii_whitespace);
        let (start, end) = match bytes.get(at) {
            Some(b'"') => (at + 1, skip(at + 1, |b| *b != b'"')),
            Some(b'\'') => (at + 1, skip(at + 1, |b| *b != b'\'')),
            _ => (at, skip(at, |b| !b.is_ascii_whitespace() && *b != b'>')),
        };
        let value = &text[start..end];
        at = if start == at { end } else { (end + 1).min(text.len()) };
        if name.eq_ignore_ascii_case("href") {
            tag.href.get_or_insert(value);
        } else if name.eq_ignore_ascii_case("alt") {
            tag.alt.get_or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn open(name: &str) -> HtmlToken<'_> {
        HtmlToken::Open(StartTag { name: name.to_owned(), ..StartTag::default() })
    }

    fn close(name: &str) -> HtmlToken<'_> {
        HtmlToken::Close(name.to_owned())
    }

    fn link<'a>(href: &'a str) -> HtmlToken<'a> {
        HtmlToken::Open(StartTag { name: "a".to_owned(), href: Some(href), ..StartTag::default() })
    }

    #[test]
    fn markup_is_split_into_tokens() {
        use HtmlToken::{Raw, Text};
        let empty = |name: &str| {
            HtmlToken::Open(StartTag { name: name.to_owned(), empty: true, ..StartTag::default() })
        };
        let table: [(&str, Vec<HtmlToken<'_>>); 20] = [
            ("", vec![]),
            ("a &amp; b", vec![Text("a &amp; b")]),
            ("<P>a</p >", vec![open("p"), Text("a"), close("p")]),
            ("1 < 2 <", vec![Text("1 "), Text("<"), Text(" 2 "), Text("<")]),
            ("<br/><br />", vec![empty("br"), empty("br")]),
            ("<a href=x>", vec![link("x")]),
            ("<a href = 'x>y' >", vec![link("x>y")]),
            ("<a class=q HREF=\"x\" href=z>", vec![link("x")]),
            ("<a b it's href=x>y", vec![link("x"), Text("y")]),
            ("<a href=\"x", vec![link("x")]),
            ("<a href=ü/ü>ü", vec![link("ü/ü"), Text("ü")]),
            ("<!doctype html>a", vec![Text("a")]),
            ("<!-- <b> --><!--><i>", vec![open("i")]),
            ("<!-- open", vec![]),
            ("<?php ?>a</ b>c", vec![Text("a"), Text("c")]),
            (
                "<script>if (a</b) '<p>'</SCRIPT>c",
                vec![open("script"), Raw("if (a</b) '<p>'"), close("script"), Text("c")],
            ),
            ("<title>a<b></title>", vec![open("title"), Raw("a<b>"), close("title")]),
            ("<style>", vec![open("style"), Raw("")]),
            ("<p", vec![open("p")]),
            ("</p", vec![close("p")]),
        ];
        for (page, expected) in table {
            assert_eq!(HtmlTokens::new(page).collect::<Vec<_>>(), expected, "{page}");
        }
    }

    proptest! {
        /// Tokenizing any text ends, and no text is made up.
        #[test]
        fn any_text_can_be_tokenized(page in "[<>/!a-c\"'= é\\-]{0,60}") {
            let text: usize = HtmlTokens::new(&page)
                .map(|token| match token { HtmlToken::Text(text) | HtmlToken::Raw(text) => text.len(), _ => 0 })
                .sum();
            prop_assert!(text <= page.len());
        }
    }
}
