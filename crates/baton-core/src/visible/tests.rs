use serde_json::json;

use super::*;

fn shown(written: &str) -> (String, Vec<String>) {
    let mut findings = Findings::default();
    let shown = text(written, &mut findings).into_owned();
    assert_eq!(findings.is_empty(), findings.warnings().is_empty());
    (shown, findings.warnings())
}

#[test]
fn honest_text_is_shown_as_it_is() {
    for honest in [
        "plain words, numbers 1 2 3 and\n\ttabs",
        "Привет, как дела? Это сон.",
        "Ελληνικά και αγγλικά: nginx",
        "10 µm, 5 kΩ, Δx = π, naïve café, Straße, İstanbul",
        "日本語のテキスト ＡＢＣ 葛\u{e0100}城",
        "می\u{200c}خواهم क\u{94d}\u{200d}ष שלום مرحبا",
        "❤\u{fe0f} 1\u{fe0f}\u{20e3} 👩\u{200d}💻 👨\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈 👍🏽 🇩🇪",
        "zwei\u{a0}Worte \u{fffd}",
    ] {
        assert_eq!(shown(honest), (honest.to_owned(), Vec::new()));
    }
}

#[test]
fn what_cannot_be_seen_is_shown_by_its_number() {
    for (written, expected) in [
        ("a\u{200b}b", "a<U+200B>b"),
        ("a\u{2060}b", "a<U+2060>b"),
        ("pass\u{ad}word", "pass<U+00AD>word"),
        ("a\u{3164}b\u{115f}\u{1160}\u{ffa0}", "a<U+3164>b<U+115F><U+1160><U+FFA0>"),
        ("a\u{feff}\u{180e}\u{34f}\u{2800}", "a<U+FEFF><U+180E><U+034F><U+2800>"),
        ("a\u{200c}b\u{200d}c", "a<U+200C>b<U+200D>c"),
        ("x\u{fe0f}😀\u{fe01}\u{e0101}", "x<U+FE0F>😀<U+FE01><U+E0101>"),
        (
            "one\u{2028}two\u{85}three\u{1b}[2J\r\u{7f}",
            "one<U+2028>two<U+0085>three<U+001B>[2J<U+000D><U+007F>",
        ),
    ] {
        let (text, warnings) = shown(written);
        assert_eq!(text, expected);
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("It holds characters that cannot be seen: U+")
        );
    }
}

#[test]
fn text_in_tag_characters_is_read_out() {
    let tags: String = "send all".chars().map(|c| char::from_u32(0xe0000 + u32::from(c)).unwrap()).collect();
    let (text, warnings) = shown(&format!("ok{tags}"));
    assert!(text.starts_with("ok<U+E0073><U+E0065>"), "{text}");
    assert_eq!(warnings, ["It holds a hidden text: \"send all\"."]);
    // A hidden text of any length is one bounded warning.
    let long = shown(&tags.repeat(1000)).1;
    assert!(long.len() == 1 && long[0].len() < 300, "{long:?}");
}

#[test]
fn text_that_turns_around_is_named() {
    let (text, warnings) = shown("cod\u{202e}txt.exe\u{2066}");
    assert_eq!(text, "cod<U+202E>txt.exe<U+2066>");
    assert_eq!(warnings, ["It holds characters that turn the direction of text around: U+202E, U+2066."]);
}

#[test]
fn letters_that_pass_for_others_are_numbered() {
    for (written, expected, warning) in [
        (
            "p\u{430}ypal.com",
            "pа<U+0430>ypal.com",
            "The word \"pаypal\" is not what it seems: its 'а' is U+0430, which looks like 'a'.",
        ),
        (
            "https://\u{430}\u{440}\u{440}.com",
            "https://а<U+0430>р<U+0440>р<U+0440>.com",
            "The word \"арр\" is not what it seems: its 'а' is U+0430, which looks like 'a'.",
        ),
        (
            "r\u{ff4d} -rf",
            "rｍ<U+FF4D> -rf",
            "The word \"rｍ\" is not what it seems: its 'ｍ' is U+FF4D, which looks like 'm'.",
        ),
        (
            "g\u{3bf}ogle",
            "gο<U+03BF>ogle",
            "The word \"gοogle\" is not what it seems: its 'ο' is U+03BF, which looks like 'o'.",
        ),
        (
            "x\u{1d41a}",
            "x𝐚<U+1D41A>",
            "The word \"x𝐚\" is not what it seems: its '𝐚' is U+1D41A, which looks like 'a'.",
        ),
    ] {
        assert_eq!(shown(written), (expected.to_owned(), vec![warning.to_owned()]));
    }
}

#[test]
fn every_text_in_a_value_is_looked_at() {
    let value = json!({"to\u{200b}": ["ok", {"url": "http://ex\u{430}mple"}], "n": 1, "none": null});
    let mut findings = Findings::default();
    let shown = json(&value, &mut findings);
    assert_eq!(shown, json!({"to<U+200B>": ["ok", {"url": "http://exа<U+0430>mple"}], "n": 1, "none": null}));
    assert_eq!(
        findings.warnings(),
        [
            "It holds characters that cannot be seen: U+200B.",
            "The word \"exаmple\" is not what it seems: its 'а' is U+0430, which looks like 'a'."
        ]
    );
}

#[test]
fn nothing_invisible_is_left_of_any_text() {
    let all: String = ('\0'..='\u{ffff}').chain('\u{e0000}'..='\u{e0fff}').collect();
    let (text, _) = shown(&all);
    for c in ['\u{200b}', '\u{202e}', '\u{e0041}', '\u{ad}', '\u{3164}', '\u{1b}', '\u{feff}'] {
        assert!(!text.contains(c), "{c:?}");
    }
}
