use proptest::prelude::*;

use super::*;

/// The whole output, with styles, when the text arrives in pieces of `size`.
fn inked(text: &str, size: usize) -> String {
    let mut markdown = Markdown::default();
    let letters: Vec<char> = text.chars().collect();
    let mut out: String =
        letters.chunks(size).map(|piece| markdown.push(&piece.iter().collect::<String>())).collect();
    out.push_str(&markdown.finish());
    out
}

/// The same, without styles.
fn shown(text: &str, size: usize) -> String {
    anstream::adapter::strip_str(&inked(text, size)).to_string()
}

/// The output after each piece, without styles; the output of the end comes last.
fn bit_by_bit(pieces: &[&str]) -> Vec<String> {
    let mut markdown = Markdown::default();
    let mut out: Vec<String> = pieces.iter().map(|piece| markdown.push(piece)).collect();
    out.push(markdown.finish());
    out.iter().map(|shown| anstream::adapter::strip_str(shown).to_string()).collect()
}

#[test]
fn text_looks_the_same_however_it_arrives() {
    let text = "# Title\n\nSome *text* with `code`,\nstill the same.\n\n- one\n- two\n  1. deep\n\n```sh\nls # x\n\n```\nafter\n\n\n> said\n> \n> more\n\n---\n[a](http://b)";
    let expected = "Title\n\nSome text with code,\nstill the same.\n\n• one\n• two\n  1. deep\n\n    ls # x\n    \nafter\n\n│ said\n│ \n│ more\n\n────────\na (http://b)\n";
    for size in [1, 3, 7, 1000] {
        assert_eq!(shown(text, size), expected, "{size}");
    }
}

#[test]
fn every_piece_is_shown_in_the_moment_it_arrives() {
    let paragraph = ["The ", "sky", " is bl", "ue.\nAnd", " wide", "."];
    assert_eq!(bit_by_bit(&paragraph), ["The ", "sky", " is bl", "ue.\nAnd", " wide", ".", "\n"]);
    let code = ["```", "rust\n", "fn ma", "in() ", "{\n", "}", "\n```", "\n", "So."];
    assert_eq!(bit_by_bit(&code), ["", "", "    fn ma", "in() ", "{\n", "    }", "\n", "", "So.", "\n"]);
    let heading = ["## ", "A ti", "tle\n", "- it", "em\n"];
    assert_eq!(bit_by_bit(&heading), ["", "A ti", "tle\n", "• it", "em\n", ""]);
    let table = ["| a ", "| b |\n", "|---"];
    assert_eq!(bit_by_bit(&table), ["| a ", "| b |\n", "|---", "\n"]);
}

#[test]
fn only_a_span_is_kept_until_its_end_and_not_for_long() {
    let span = ["very ", "**im", "port", "ant**", " thing"];
    assert_eq!(bit_by_bit(&span), ["very ", "", "", "", "important thing", "\n"]);
    let long = "x".repeat(60);
    let never = ["see *", &long, "abcd", "efgh", " and so on"];
    let expected = [
        "see ".to_owned(),
        String::new(),
        String::new(),
        format!("*{long}abcdefgh"),
        " and so on".into(),
        "\n".into(),
    ];
    assert_eq!(bit_by_bit(&never), expected);
    assert_eq!(bit_by_bit(&["2 * 3 [a", "] is_so_ *"]), ["2 * 3 ", "[a] is_so_ ", "*\n"]);
}

#[test]
fn marks_that_mark_nothing_are_shown() {
    for text in [
        "f(*args, **kwargs)\n",
        "a snake_case_name and __init__x\n",
        "`open\n",
        "*\n",
        "**\n",
        "#hash\n",
        "[x] done [y](not a link) [z\n",
        "<b>x</b> & y\n",
        "~5 ~~ x\n",
        "| a | b |\n|---|---|\n| *1* | 2 |\n",
        "-5 and +1\n",
    ] {
        assert_eq!(shown(text, 1), text);
    }
    assert_eq!(shown("1\\. and \\*stars\\* \\d \\", 1), "1. and *stars* \\d \\\n");
    assert_eq!(shown("```\nnever closed\n\nx", 5), "    never closed\n    \n    x\n");
    assert_eq!(shown("1. so\n   ~~~\n   code\n   ~~~\n", 2), "1. so\n       code\n");
    assert_eq!(shown("> ```\n> a\n> ```\nb", 2), "│ ```\n│ a\n│ ```\nb\n");
    assert_eq!(shown("[w](http://a/b_(c)) ```x``` y", 2), "w (http://a/b_(c)) x y\n");
}

#[test]
fn styles_are_closed_again() {
    let ink = |text: &str| inked(text, 1000);
    assert_eq!(ink("a **b *c* d** e"), "a \u{1b}[1mb \u{1b}[3mc\u{1b}[0m\u{1b}[1m d\u{1b}[0m e\n");
    assert_eq!(ink("# a `b`"), "\u{1b}[1ma \u{1b}[0m\u{1b}[1m\u{1b}[36mb\u{1b}[0m\u{1b}[1m\u{1b}[0m\n",);
    assert_eq!(ink("```\na\n```"), "    \u{1b}[36ma\u{1b}[0m\n");
}

proptest! {
    #[test]
    fn no_word_is_lost_or_doubled_and_pieces_do_not_matter(
        text in "([a-z ]{1,9}|[*_`~#>|\\[\\]()!.+-]{1,4}|\n|\\\\|é|\\*\\*b\\*\\*){0,40}",
        size in 1..9_usize,
    ) {
        let words = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
        let out = shown(&text, size);
        prop_assert_eq!(&out, &shown(&text, 10_000));
        // The language of a block of code is the only text that is left out.
        let fences = text.lines().any(|line| line.contains("```") || line.contains("~~~"));
        if !fences {
            prop_assert_eq!(words(&out), words(&text));
        }
    }
}
