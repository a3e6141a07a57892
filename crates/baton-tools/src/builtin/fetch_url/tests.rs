use std::time::Duration;

use super::*;

const TOO_MUCH: &str = "Note: The markup is too deep or too long: some of it is shown as plain text.\n";

fn page(media: Media, body: &str) -> FetchedPage {
    let url = "https://a.example/dir/page".parse().unwrap();
    FetchedPage { url, media, charset: None, body: body.as_bytes().to_vec(), cut: None }
}

#[test]
fn html_becomes_markdown() {
    let html = "<!doctype html><html><head><title> The &amp; \n Title</title><style>p{}</style></head><body>\
        <script>alert('<p>no</p>')</script><h1>Head</h1><p>One <b>bold</b>, <em>it</em> &amp; <a href='../x?a=1&amp;b=2'>\
        a link</a>.<p>Two<br>lines<ul><li>a<li>b<ul><li>c</ul></ul><ol><li>x</li></ol>\
        <pre><code>let a = 1;\n  b</code></pre><blockquote>q</blockquote><img alt='a cat' src=c.png>\
        <table><tr><th>k</th><th>v|w</th></tr><tr><td>1</td><td><p>2</p><p>3</p></td></tr></table></body></html>";
    let expected = "Title: The & Title\n\
        Address: https://a.example/dir/page\n\n\
        # Head\n\n\
        One **bold**, *it* & [a link](https://a.example/x?a=1&b=2).\n\n\
        Two  \nlines\n\n\
        - a\n- b\n  - c\n\n\
        1. x\n\n\
        ```\nlet a = 1;\n  b\n```\n\n\
        > q\n\n\
        a cat\n\n\
        | k | v\\|w |\n| --- | --- |\n| 1 | 2 3 |";
    assert_eq!(render(&page(Media::Html, html)), expected);
}

#[test]
fn text_and_json_stay_as_they_are() {
    let head = "Address: https://a.example/dir/page\n\n";
    for (media, body) in
        [(Media::Json, "{\"a\": \"<b>*x*</b>\"}\n"), (Media::Text, "<p>no *markup*\n\n\n  x")]
    {
        assert_eq!(render(&page(media, body)), format!("{head}{body}"));
    }
    assert_eq!(render(&page(Media::Text, "")), format!("{head}[The page holds no text.]"));
    assert_eq!(
        render(&page(Media::Html, "<script>app()</script><div></div>")),
        format!("{head}[The page holds no text.]")
    );
}

#[test]
fn a_cut_page_has_a_note_that_says_so() {
    let head = "Address: https://a.example/dir/page\n";
    let by_size = FetchedPage { cut: Some(Truncation::Size(2_097_152)), ..page(Media::Text, "ab") };
    let by_time =
        FetchedPage { cut: Some(Truncation::Time(Duration::from_millis(1500))), ..page(Media::Text, "ab") };
    assert_eq!(
        render(&by_size),
        format!("{head}Note: The page is longer than 2097152 bytes: the rest is left out.\n\nab")
    );
    assert_eq!(
        render(&by_time),
        format!("{head}Note: The page was not complete after 1.5 s: the rest is left out.\n\nab")
    );
}

#[test]
fn a_long_title_is_cut() {
    let text = render(&page(Media::Html, &format!("<title>{}</title>x", "é".repeat(1000))));
    assert_eq!(text, format!("Title: {}\nAddress: https://a.example/dir/page\n\nx", "é".repeat(MAX_TITLE)));
}

/// A page of 64 KiB, made of the same pieces. Unguarded, each of these takes all of the stack or
/// all of the memory.
fn bomb(opening: &str, piece: &str) -> String {
    let pieces = (64 * 1024 - opening.len()) / piece.len();
    render(&page(Media::Html, &format!("{opening}{}", piece.repeat(pieces))))
}

fn is_flattened(text: &str) -> bool {
    text.starts_with(&format!("Address: https://a.example/dir/page\n{TOO_MUCH}\n"))
}

#[test]
fn deep_markup_is_flattened() {
    for piece in ["<div>x", "<b><i>x", "<ul><li>x", "<ol><li>x", "<blockquote>x", "<table><tr><td>x"] {
        let text = bomb("", piece);
        assert!(is_flattened(&text), "{piece}");
        let letters = text.split_once(TOO_MUCH).map_or(0, |(_, body)| body.matches('x').count());
        assert_eq!(letters, 64 * 1024 / piece.len(), "{piece}");
    }
}

#[test]
fn formatting_that_is_never_closed_does_not_multiply() {
    for tag in ["b id=", "a href="] {
        let opening: String = (0..1000).map(|n| format!("<{tag}{n}>")).collect();
        let text = bomb(&opening, "<p>x");
        assert!(text.len() < 4 * 64 * 1024, "{tag}: {}", text.len());
    }
}

#[test]
fn a_wide_table_is_not_padded() {
    let long = "y".repeat(32 * 1024);
    let text = bomb(&format!("<table><tr><td>{long}"), "<tr><td>x");
    assert!(text.contains("\n| x |\n| x |\n") && text.len() < 2 * 64 * 1024, "{}", text.len());
}
