//! A call between the tags in a model's text.
//!
//! Arguments are passed on literally and not validated.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct TaggedCall<'a> {
    name: String,
    #[serde(borrow, alias = "parameters", default)]
    arguments: Option<&'a RawValue>,
}

/// The name and the arguments of a call. The arguments of one that is not JSON are its whole text.
pub(super) fn parse_tagged_call(call: &str) -> Option<(String, String)> {
    if call.starts_with('{')
        && let Ok(TaggedCall { name, arguments }) = serde_json::from_str(call)
    {
        let arguments = arguments.map_or("{}", RawValue::get);
        // Some models write the arguments as a text of JSON.
        let unquoted = serde_json::from_str::<String>(arguments).ok();
        return Some((name, unquoted.unwrap_or_else(|| arguments.to_owned())));
    }
    // JSON of another shape might fit a tool by chance, and must not run.
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(call).is_ok();
    let name = name_in(call).filter(|_| !is_json)?;
    Some((name, call.to_owned()))
}

/// The text after the first `"name":` in a call that is nearly JSON.
fn name_in(call: &str) -> Option<String> {
    let (_, rest) = call.split_once("\"name\"")?;
    let rest = rest.trim_start().strip_prefix(':')?;
    serde_json::Deserializer::from_str(rest).into_iter::<String>().next()?.ok()
}
