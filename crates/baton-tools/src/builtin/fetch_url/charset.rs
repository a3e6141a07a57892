//! Decoding of pages: bytes to text.
//!
//! UTF-8, UTF-16 and the one Western code page that old pages are in. Other encodings are rare, and each would
//! need tables; they are read as UTF-8, and a note says that some characters are not readable.

use crate::egress::{FetchedPage, Media};

/// How far into a page its encoding may be declared.
const PROLOGUE: usize = 1024;

/// The characters that Windows-1252 has where Latin-1 has control characters.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The text of a page, and a note if not all of it could be read.
pub(super) fn decode(page: &FetchedPage) -> (String, Option<String>) {
    let body = page.body.as_slice();
    match body {
        [0xef, 0xbb, 0xbf, rest @ ..] => return (utf8(rest, page.cut.is_some()), None),
        [0xfe, 0xff, rest @ ..] => return (utf16(rest, u16::from_be_bytes), None),
        [0xff, 0xfe, rest @ ..] => return (utf16(rest, u16::from_le_bytes), None),
        _ => {}
    }
    let declared = page.charset.clone().filter(|name| !name.is_empty());
    let declared = declared.or_else(|| (page.media == Media::Html).then(|| declaration(body)).flatten());
    match declared.as_deref() {
        Some("utf-8" | "utf8") => (utf8(body, page.cut.is_some()), None),
        Some("utf-16be") => (utf16(body, u16::from_be_bytes), None),
        Some("utf-16" | "utf-16le") => (utf16(body, u16::from_le_bytes), None),
        Some("iso-8859-1" | "latin1" | "windows-1252" | "cp1252" | "us-ascii" | "ascii") => {
            (windows_1252(body), None)
        }
        None if std::str::from_utf8(whole(body)).is_ok() => (utf8(body, page.cut.is_some()), None),
        None => (windows_1252(body), None),
        Some(other) => {
            let other: String = other.chars().filter(|c| c.is_ascii_graphic()).take(40).collect();
            let note = format!("The encoding {other} is not known here: some characters are not readable.");
            (utf8(body, page.cut.is_some()), Some(note))
        }
    }
}

/// The encoding that the page itself declares, in lower case.
fn declaration(body: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&body[..body.len().min(PROLOGUE)]).to_ascii_lowercase();
    let (_, rest) = start.split_once("charset=")?;
    let rest = rest.trim_start_matches(['"', '\'', ' ']);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | ':'))?;
    // A declaration that can be read byte by byte is not in UTF-16, even if it says so.
    Some(rest[..end].replace("utf-16", "utf-8")).filter(|name| !name.is_empty())
}

fn utf8(bytes: &[u8], cut: bool) -> String {
    String::from_utf8_lossy(if cut { whole(bytes) } else { bytes }).into_owned()
}

/// The bytes without a character that their end cuts in two.
fn whole(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

fn windows_1252(bytes: &[u8]) -> String {
    let char = |byte: &u8| match byte {
        0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
        byte => char::from(*byte),
    };
    bytes.iter().map(char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::Truncation;

    fn page(body: &[u8], charset: Option<&str>, cut: bool) -> FetchedPage {
        FetchedPage {
            url: "https://a.example/".parse().unwrap(),
            media: Media::Html,
            charset: charset.map(str::to_owned),
            body: body.to_vec(),
            cut: cut.then_some(Truncation::Size(1)),
        }
    }

    #[test]
    fn encodings_are_told_apart() {
        let table: [(&[u8], Option<&str>, &str); 13] = [
            ("grün €".as_bytes(), None, "grün €"),
            ("grün €".as_bytes(), Some("utf-8"), "grün €"),
            (b"gr\xfcn \x80", None, "grün €"),
            (b"gr\xfcn", Some("iso-8859-1"), "grün"),
            (b"gr\xfcn", Some("utf-8"), "gr\u{fffd}n"),
            (b"\xef\xbb\xbfgr\xc3\xbcn", Some("iso-8859-1"), "grün"),
            (b"\xfe\xff\0g\0r\0\xfc\0n", None, "grün"),
            (b"\xff\xfeg\0r\0\xfc\0n\0", None, "grün"),
            (b"g\0\0\xd8", Some("utf-16le"), "g\u{fffd}"),
            (b"<meta charset='windows-1252'>\x93\xfc\x94", None, "<meta charset='windows-1252'>“ü”"),
            (b"<meta charset=utf-16>\xc3\xbc", None, "<meta charset=utf-16>ü"),
            (b"<meta charset=latin1>\xc3\xbc", Some("utf-8"), "<meta charset=latin1>ü"),
            (b"", None, ""),
        ];
        for (body, charset, expected) in table {
            assert_eq!(decode(&page(body, charset, false)), (expected.to_owned(), None), "{expected}");
        }
    }

    #[test]
    fn an_unknown_encoding_has_a_note() {
        let note = "The encoding shift_jis is not known here: some characters are not readable.";
        assert_eq!(
            decode(&page(b"a\x93", Some("shift_jis"), false)),
            ("a\u{fffd}".to_owned(), Some(note.to_owned()))
        );
    }

    #[test]
    fn a_character_that_the_limit_cuts_in_two_is_left_out() {
        assert_eq!(decode(&page("grü".as_bytes().split_last().unwrap().1, None, true)).0, "gr");
        assert_eq!(decode(&page(b"gr\xc3", Some("utf-8"), false)).0, "gr\u{fffd}");
    }
}
