use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Whether a text is part of another, at its very place in memory.
fn is_in(part: &str, whole: &str) -> bool {
    whole.as_bytes().as_ptr_range().contains(&part.as_ptr())
}

fn texts<'a>(document: &'a BorrowedJson<'_>) -> Vec<&'a str> {
    match document {
        BorrowedJson::String(text) => vec![text],
        BorrowedJson::Array(items) => items.iter().flat_map(texts).collect(),
        BorrowedJson::Object(fields) => {
            fields.iter().flat_map(|(name, value)| [vec![name.as_ref()], texts(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[{\"a\":".repeat(depth / 2), "}]".repeat(depth / 2)).replace(":}", ":0}")
}

#[test]
fn a_document_reads_as_a_value_does() {
    let table = [
        r#" {"a" : [1, -2, 0.1, 1e3, true, false, null, "text", {}, []], "b": {"c": "d"}} "#,
        r#"{"na\u006de":"a\"\\\/\b\f\n\r\té🦀\ud83e\udd80","":""}"#,
        r#"{"same":1,"other":2,"same":{"same":3,"s\u0061me":[4]}}"#,
        "[18446744073709551615,18446744073709551616,-9223372036854775808,-9223372036854775809,-0,-0.0]",
        "[2.2250738585072014e-308,0.30000000000000004,1E-400]",
        "null",
        "7",
        "\"\"",
        // What it refuses.
        "",
        " ",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{1:2}",
        "[1] x",
        "{}{}",
        "nul",
        "01",
        "1e400",
        "NaN",
        r#""\ud83e""#,
        r#""\x""#,
        "\"a\nb\"",
        "\u{feff}{}",
        "[[",
    ];
    for text in table {
        let value = serde_json::from_str::<Value>(text).ok();
        let document = BorrowedJson::parse(text).ok();
        assert_eq!(document.as_ref().map(BorrowedJson::to_value), value, "{text}");
        assert_eq!(document.map(|it| it.to_string()), value.map(|it| it.to_string()), "{text}");
    }
}

#[test]
fn only_texts_with_an_escape_are_copied() {
    let text = r#"{"plain":["é🦀",{"":"x"}],"esc\u0061ped":"a\nb"}"#;
    let document = BorrowedJson::parse(text).unwrap();
    let found: Vec<(&str, bool)> =
        texts(&document).into_iter().map(|found| (found, is_in(found, text))).collect();
    let expected =
        [("plain", true), ("é🦀", true), ("", true), ("x", true), ("escaped", false), ("a\nb", false)];
    assert_eq!(found, expected);
}

#[test]
fn look_ups_are_those_of_a_value() {
    let text =
        r#"{"t":"x","n":7,"f":7.0,"m":-7,"b":true,"z":null,"a":["x",2],"o":{"t":1},"t":"last","k\u0065y":8}"#;
    let (document, value) =
        (BorrowedJson::parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    for field in ["t", "n", "f", "m", "b", "z", "a", "o", "key", "k\\u0065y", "none", ""] {
        let (mine, theirs) = (&document[field], &value[field]);
        assert_eq!(mine.to_value(), *theirs, "{field}");
        assert_eq!(document.get(field).map(BorrowedJson::to_value), value.get(field).cloned(), "{field}");
        assert_eq!(mine.as_str(), theirs.as_str(), "{field}");
        assert_eq!(mine.as_u64(), theirs.as_u64(), "{field}");
        let items = mine.as_array().map(|items| items.iter().map(BorrowedJson::to_value).collect());
        assert_eq!(items, theirs.as_array().cloned(), "{field}");
        assert_eq!(
            [mine.is_null(), mine.is_array(), mine.is_object(), *mine == "last"],
            [theirs.is_null(), theirs.is_array(), theirs.is_object(), *theirs == "last"],
            "{field}"
        );
    }
    assert_eq!((document["t"].as_str(), document["key"].as_u64()), (Some("last"), Some(8)));
    // Of what is no object nothing is there, and nothing of that.
    assert_eq!(document["t"]["t"]["t"], BorrowedJson::Null);
    assert_eq!(BorrowedJson::parse("[1]").unwrap().get("0"), None);
}

#[test]
fn hostile_nesting_is_refused() {
    assert_eq!(nested(4), r#"[{"a":[{"a":0}]}]"#);
    let told =
        |text: &str| BorrowedJson::parse(text).map(|_| ()).map_err(|bad| bad.to_string().contains("deeply"));
    assert_eq!(told(&nested(64)), Ok(()));
    assert_eq!(told(&format!("[{}]", nested(64))), Err(true));
    assert_eq!(told(&format!("{{\"a\":{}}}", nested(64))), Err(true));
    assert_eq!(told(&"[".repeat(1_000_000)), Err(true));
    // Neighbours do not add up.
    assert_eq!(told(&format!("[{0},{0},{0}]", nested(62))), Ok(()));
}

/// A `Value` takes the text of such a field for a document and puts that in the place of the object.
#[test]
fn names_that_serde_json_keeps_for_itself_are_refused() {
    for name in
        ["$serde_json::private::RawValue", "$serde_json::private::Number", "\\u0024serde_json::private::X"]
    {
        for text in [format!(r#"{{"{name}":"[1]"}}"#), format!(r#"[{{"a":1,"{name}":"[1]"}}]"#)] {
            let told = BorrowedJson::parse(&text).map_err(|bad| bad.to_string().contains("reserved name"));
            assert_eq!(told, Err(true), "{text}");
        }
    }
    // Elsewhere they are words like any other.
    let text = r#"{"$serde_json":"$serde_json::private::RawValue"}"#;
    assert_eq!(
        BorrowedJson::parse(text).unwrap().to_value(),
        json!({"$serde_json": "$serde_json::private::RawValue"})
    );
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn the_text_of_a_value_is_parsed_to_an_equal_document(value in document()) {
        let text = value.to_string();
        let read = BorrowedJson::parse(&text).unwrap();
        prop_assert_eq!((read.to_value(), read.to_string()), (value, text.clone()));
    }
}
