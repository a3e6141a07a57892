use super::*;

/// The lines of some pieces, the last one marked if the body ended in it, and how it went.
fn lines(mut lines: LineSplitter, pieces: &[&[u8]]) -> (Vec<String>, Option<String>, Option<String>) {
    let mut found = Vec::new();
    for piece in pieces {
        let mut bytes = *piece;
        loop {
            match lines.next(&mut bytes) {
                Ok(Some(line)) => found.push(line.to_owned()),
                Ok(None) => break,
                Err(fault) => return (found, None, Some(fault.message)),
            }
        }
    }
    match lines.last() {
        Ok(last) => (found, last.map(str::to_owned), None),
        Err(fault) => (found, None, Some(fault.message)),
    }
}

fn whole(text: &[u8]) -> (Vec<String>, Option<String>, Option<String>) {
    lines(LineSplitter::default(), &[text])
}

fn ended(found: &[&str], last: Option<&str>) -> (Vec<String>, Option<String>, Option<String>) {
    (found.iter().map(|line| (*line).to_owned()).collect(), last.map(str::to_owned), None)
}

#[test]
fn every_kind_of_line_end_ends_a_line_once() {
    let table: [(&str, &[&str], Option<&str>); 10] = [
        ("", &[], None),
        ("a", &[], Some("a")),
        ("a\nb\n", &["a", "b"], None),
        ("a\r\nb\r\n", &["a", "b"], None),
        ("a\rb\r", &["a", "b"], None),
        ("a\r\rb", &["a", ""], Some("b")),
        ("a\n\rb", &["a", ""], Some("b")),
        ("\r\n\r\n", &["", ""], None),
        ("a\r\n\nb\n", &["a", "", "b"], None),
        ("ü\n漢", &["ü"], Some("漢")),
    ];
    for (text, found, last) in table {
        assert_eq!(whole(text.as_bytes()), ended(found, last), "{text:?}");
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(lines(LineSplitter::default(), &bytes), ended(found, last), "{text:?} byte by byte");
    }
}

#[test]
fn a_pair_of_cr_and_lf_may_come_in_two_pieces_with_nothing_between() {
    assert_eq!(lines(LineSplitter::default(), &[b"a\r", b"", b"\nb\r", b"\n"]), ended(&["a", "b"], None));
}

#[test]
fn only_the_very_first_byte_order_mark_is_skipped() {
    assert_eq!(whole("\u{feff}a\n\u{feff}b\n".as_bytes()), ended(&["a", "\u{feff}b"], None));
    assert_eq!(whole("\u{feff}a".as_bytes()), ended(&[], Some("a")));
    assert_eq!(lines(LineSplitter::default(), &[b"\xef", b"\xbb", b"\xbfa\n"]), ended(&["a"], None));
}

#[test]
fn half_a_character_at_the_end_of_a_line_is_not_text() {
    let words = "the model's server sent text that is not UTF-8".to_owned();
    assert_eq!(whole(b"ok\n\xe6\xbc\nmore\n"), (vec!["ok".to_owned()], None, Some(words.clone())));
    assert_eq!(whole(b"\xe6\xbc"), (vec![], None, Some(words)));
}

#[test]
fn lines_and_bodies_have_bounds_and_say_which() {
    let within = || LineSplitter::within(4, 10);
    let line = Some("the model's server sent a line longer than 4 bytes".to_owned());
    let body = Some("the model's server sent an answer longer than 10 bytes".to_owned());
    let table: [(&[u8], &[&str], &Option<String>); 6] = [
        (b"abcd\nabcd\n", &["abcd", "abcd"], &None),
        (b"abcde\n", &[], &line),
        (b"a\nabcde", &["a"], &line),
        (b"abcd\nabcd\nx", &["abcd", "abcd"], &body),
        (b"abcd\nabcd\n\n", &["abcd", "abcd"], &body),
        (b"\n\n\n\n\n\n\n\n\n\n\n", &[""; 10], &body),
    ];
    for (bytes, found, fault) in table {
        let expected = (found.iter().map(|line| (*line).to_owned()).collect(), None, fault.clone());
        assert_eq!(lines(within(), &[bytes]), expected, "{bytes:?}");
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(lines(within(), &pieces), expected, "{bytes:?} byte by byte");
    }
}

#[test]
fn the_real_bounds_are_8_and_64_mib() {
    let line = vec![b'x'; MAX_LINE_BYTES + 1];
    let said = whole(&line).2.unwrap();
    assert_eq!(said, "the model's server sent a line longer than 8 MiB");
    assert_eq!(whole(&line[1..]).1.map(|last| last.len()), Some(MAX_LINE_BYTES));
    assert_eq!(
        too_long("an answer", MAX_BODY_BYTES).message,
        "the model's server sent an answer longer than 64 MiB"
    );
}

#[test]
fn a_long_line_in_single_bytes_takes_time_in_proportion() {
    // Four million calls: anything that looked at the beginning of the line again would not come back.
    let mut lines = LineSplitter::default();
    for _ in 0..4_000_000 {
        assert_eq!(lines.next(&mut &b"x"[..]), Ok(None));
    }
    assert_eq!(lines.next(&mut &b"\n"[..]).unwrap().map(str::len), Some(4_000_000));
    assert_eq!(lines.last(), Ok(None));
}

#[test]
fn the_end_of_a_line_is_found_at_every_position() {
    for length in 0..100 {
        assert_eq!(super::line_end(&vec![b'x'; length]), None, "{length}");
        for at in 0..length {
            for (end, other) in [(b'\n', b'\r'), (b'\r', b'\n')] {
                let mut bytes = vec![b'x'; length];
                bytes[at] = end;
                bytes[at + 1..].fill(other);
                assert_eq!(super::line_end(&bytes), Some(at), "{at} of {length}");
            }
        }
    }
}
