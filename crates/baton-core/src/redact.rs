//! Redaction: secrets are removed from text before a user or a log sees it.
//!
//! A server that refuses a key often repeats it: as it is, as a part of an address, or encoded. A secret that
//! is too short is not looked for, because ordinary words of every text would match it.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

/// The replacement of a secret.
const REDACTED: &str = "[redacted]";

/// The shortest secret that is looked for, and the shortest beginning of one that is removed, in bytes.
pub const MIN_SECRET: usize = 8;

/// Parts of the names of parameters that hold secrets.
const SECRET_NAMES: [&str; 9] =
    ["key", "token", "secret", "pass", "pwd", "auth", "sig", "credential", "session"];

/// A secret in every form in which it is looked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Redactor {
    /// Each once, the longest first.
    forms: Vec<String>,
}

impl Redactor {
    /// The forms of a secret: plain, percent-encoded, as a part of a JSON text, and inside of Base64.
    pub fn new(secret: &str) -> Redactor {
        let mut forms = Vec::new();
        if secret.len() >= MIN_SECRET {
            let quoted = serde_json::Value::from(secret).to_string();
            forms.extend([secret.to_owned(), quoted.trim_matches('"').to_owned()]);
            let upper = percent(secret, |byte| format!("%{byte:02X}"));
            forms.extend([percent(secret, |byte| format!("%{byte:02x}")), upper.replace("%20", "+"), upper]);
            forms.push(secret.replace('/', "%2F"));
            for offset in 0..3 {
                let standard = within_base64(secret.as_bytes(), offset);
                forms.extend([standard.replace('+', "-").replace('/', "_"), standard]);
            }
        }
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Redactor { forms }
    }

    /// Whether a text holds the secret.
    pub fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|form| text.contains(form))
    }

    /// A text with the secret taken out, wherever it occurs, and its beginning, where the text was cut off
    /// in the middle of it.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for form in &self.forms {
            text = without(&text, form);
        }
        text
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

fn without(text: &str, form: &str) -> String {
    let text = text.replace(form, REDACTED);
    let whole = text.strip_suffix('…').unwrap_or(&text);
    let beginnings = form.char_indices().rev().map(|(end, _)| &form[..end]);
    match beginnings.take_while(|part| part.len() >= MIN_SECRET).find(|part| whole.ends_with(part)) {
        Some(part) => format!("{}{REDACTED}…", &whole[..whole.len() - part.len()]),
        None => text,
    }
}

/// Percent-encodes a text as an address does: every byte but letters, digits and `-._~`.
fn percent(text: &str, escape: impl Fn(u8) -> String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { escape(byte) })
        .collect()
}

/// The Base64 characters that depend on these bytes alone, if `offset` bytes of a group of three precede them.
fn within_base64(bytes: &[u8], offset: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |at: usize| -> u8 {
        let byte = (at / 8).checked_sub(offset).and_then(|at| bytes.get(at)).copied().unwrap_or(0);
        (byte >> (7 - at % 8)) & 1
    };
    let first = (offset * 8).div_ceil(6);
    let end = (offset + bytes.len()) * 8 / 6;
    let digit = |place: usize| (0..6).fold(0, |sum, n| sum << 1 | usize::from(bit(place * 6 + n)));
    (first..end).map(|place| char::from(DIGITS[digit(place)])).collect()
}

/// A text with users, passwords and secret parameters removed from its addresses, so that it may be shown.
pub fn without_secrets_in_urls(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        let end =
            after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>')).unwrap_or(after.len());
        shown.push_str(before);
        shown.push_str(&url(&after[..end]));
        rest = &after[end..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// The part of an address behind `://`.
fn url(after: &str) -> String {
    let (place, query) = match after.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (after, None),
    };
    // A password may hold a slash that was not encoded, so everything before the last `@` of the host is one.
    let place = match place.rsplit_once('@') {
        Some((user, host)) if !user.contains('/') || user.contains(':') => format!("{REDACTED}@{host}"),
        _ => place.to_owned(),
    };
    let Some(query) = query else { return place };
    let parameter = |part: &str| match part.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret(name) => format!("{name}={REDACTED}"),
        _ => part.to_owned(),
    };
    format!("{place}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
}

/// Words in the names of fields that hold secrets. [`KEY_KINDS`] name one only before the word `key`.
const SECRET_WORDS: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "credentials",
    "authorization",
    "apikey",
    "cookie",
];
const KEY_KINDS: [&str; 6] = ["api", "access", "private", "secret", "signing", "encryption"];

/// A JSON value that may be shown: known secrets are removed from its texts and names, addresses lose their
/// credentials, and values of fields that are named like a secret are replaced.
pub fn redact_json(value: &Value, known: &[Redactor]) -> Value {
    let text = |text: &str| {
        let text = known.iter().fold(text.to_owned(), |text, secret| secret.redact(&text));
        without_secrets_in_urls(&text).into_owned()
    };
    match value {
        Value::String(said) => Value::String(text(said)),
        Value::Array(items) => items.iter().map(|item| redact_json(item, known)).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let is_shown = value.is_null() || value.is_boolean() || !is_secret_field(name);
                let value = if is_shown { redact_json(value, known) } else { Value::from(REDACTED) };
                (text(name), value)
            };
            Value::Object(fields.iter().map(field).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Whether a field is named like a secret. Whole words are compared, so `author` and `max_tokens` are not.
fn is_secret_field(name: &str) -> bool {
    let mut words: Vec<String> = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    let is_key =
        |pair: &[String]| matches!(pair, [kind, word] if word == "key" && KEY_KINDS.contains(&kind.as_str()));
    words.iter().any(|word| SECRET_WORDS.contains(&word.as_str())) || words.windows(2).any(is_key)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk/9+a b=ü?12345";

    #[test]
    fn a_redactor_is_not_shown() {
        assert_eq!(format!("{:?}", Redactor::new(SECRET)), "Redactor");
    }

    #[test]
    fn a_secret_is_taken_out_in_every_form() {
        let redactor = Redactor::new(SECRET);
        for form in [
            "sk/9+a b=ü?12345",
            "sk%2F9%2Ba%20b%3D%C3%BC%3F12345",
            "sk%2f9%2ba%20b%3d%c3%bc%3f12345",
            "sk%2F9%2Ba+b%3D%C3%BC%3F12345",
            "sk%2F9+a b=ü?12345",
        ] {
            let text = format!("https://h/?k={form}&x=1");
            assert!(redactor.is_in(&text), "{text}");
            assert_eq!(redactor.redact(&text), "https://h/?k=[redacted]&x=1");
        }
        assert!(!redactor.is_in("https://h/") && redactor.redact("https://h/") == "https://h/");
    }

    #[test]
    fn a_secret_is_taken_out_of_base64_wherever_it_begins() {
        let redactor = Redactor::new("sk-12345678");
        for (text, shown) in [
            ("c2stMTIzNDU2Nzg=", "[redacted]g="),         // sk-12345678
            ("YTpzay0xMjM0NTY3OA==", "YTp[redacted]A=="), // a:sk-12345678
            ("bWU6c2stMTIzNDU2Nzg=", "bWU6[redacted]g="), // me:sk-12345678
            ("eDpzay0xMjM0NTY3ODp5", "eDp[redacted]Dp5"), // x:sk-12345678:y
            ("dXNlOnNrLTEyMzQ1Njc4", "dXNlOn[redacted]"), // use:sk-12345678
        ] {
            assert_eq!(redactor.redact(text), shown);
        }
    }

    #[test]
    fn a_short_secret_takes_no_words_out() {
        for short in ["", "x", "key", "ollama", "1234567"] {
            let text = format!("an {short} example of ollama key x 1234567");
            assert_eq!(Redactor::new(short).redact(&text), text);
            assert!(!Redactor::new(short).is_in(&text));
        }
    }

    #[test]
    fn a_secret_that_was_cut_off_is_taken_out() {
        for (secret, text, shown) in [
            ("sk-12345678", "cut: sk-12345…", "cut: [redacted]…"),
            ("sk-12345678", "cut: sk-1234567", "cut: [redacted]…"),
            ("sk-12345678", "not cut: sk-1234", "not cut: sk-1234"),
            ("schlüssel", "cut: schlüsse", "cut: [redacted]…"),
        ] {
            assert_eq!(Redactor::new(secret).redact(text), shown);
        }
    }

    #[test]
    fn a_document_is_shown_without_secrets() {
        let value = serde_json::json!({
            "text": "use sk-12345678 at https://me:pass@h/?token=t", "sk-12345678": 1, "list": [["sk-12345678"]],
            "password": "p", "apiKey": {"deep": 1}, "DB_PASSWORD": 5, "x-access-key": "k", "Authorization": ["Bearer b"],
            "token": null, "secret": true, "author": "ann", "max_tokens": 5, "key": "order-7", "keyboard": "k",
        });
        let shown = serde_json::json!({
            "text": "use [redacted] at https://[redacted]@h/?token=[redacted]", "[redacted]": 1,
            "list": [["[redacted]"]], "password": "[redacted]", "apiKey": "[redacted]", "DB_PASSWORD": "[redacted]",
            "x-access-key": "[redacted]", "Authorization": "[redacted]", "token": null, "secret": true,
            "author": "ann", "max_tokens": 5, "key": "order-7", "keyboard": "k",
        });
        assert_eq!(redact_json(&value, &[Redactor::new("sk-12345678")]), shown);
    }

    #[test]
    fn addresses_are_shown_without_what_opens_them() {
        for (text, shown) in [
            ("https://h:8443/p?v=2#f", "https://h:8443/p?v=2#f"),
            ("https://me:pa55@h/p", "https://[redacted]@h/p"),
            ("https://token@h/p", "https://[redacted]@h/p"),
            ("https://me:pa/55@h", "https://[redacted]@h"),
            ("https://h/@name/p", "https://h/@name/p"),
            (
                "https://h/p?api_key=abc&v=2&access_token=&X-Amz-Signature=1f",
                "https://h/p?api_key=[redacted]&v=2&access_token=&X-Amz-Signature=[redacted]",
            ),
            (
                "see http://a:b@h/ and http://h/?Token=t\n",
                "see http://[redacted]@h/ and http://h/?Token=[redacted]\n",
            ),
            ("no address: me:pass@h", "no address: me:pass@h"),
        ] {
            assert_eq!(without_secrets_in_urls(text), shown);
        }
    }
}
