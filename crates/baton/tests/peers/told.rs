//! The comparable parts of a test: Baton's settings, its output, and its stored entries.

use serde_json::{Value, json};

use crate::mask::Mask;
use crate::stage::Did;
use crate::world::World;

/// Settings for one peer: its address, its format (found out if there is none), its model, and any more.
pub(crate) fn settings(world: &World, url: &str, api: Option<&str>, model: &str, more: &str) {
    let api = api.map(|api| format!("api = {api:?}\n")).unwrap_or_default();
    world.settings(&format!(
        "[providers.peer]\nbase_url = {url:?}\n{api}\n\
         [[roles.reasoning]]\nmodel = \"peer/{model}\"\ntemperature = 0\n{more}"
    ));
}

/// Whether the shown text is the model's text, in the same pieces; several that arrived together are one.
pub(crate) fn is_said_by(shown: &[&str], said: &[&str]) -> bool {
    let mut said = said.iter();
    let is_whole = |piece: &&str| {
        let mut rest = *piece;
        while !rest.is_empty() {
            match said.next().and_then(|word| rest.strip_prefix(word)) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        true
    };
    shown.iter().all(is_whole) && said.next().is_none()
}

/// The pieces of text that were shown, one after the other.
pub(crate) fn pieces(objects: &[Value]) -> Vec<&str> {
    let pieces = objects.iter().filter(|object| object["type"] == "thinking");
    pieces.map(|piece| piece["content"].as_str().unwrap()).collect()
}

/// The outline of the output, in order: each type with its code or status. Text counts once, in however many pieces it
/// came.
pub(crate) fn outline(objects: &[Value]) -> String {
    let word = |object: &Value, field: &str| object[field].as_str().map(str::to_owned);
    let mut lines: Vec<String> = objects
        .iter()
        .map(|object| {
            let detail = word(object, "code").or_else(|| word(object, "status"));
            [word(object, "type"), detail].into_iter().flatten().collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.dedup_by(|next, before| next == before && next == "thinking");
    lines.join(", ")
}

/// The entries of a thread: type and data, our ids masked and the provider's left out.
pub(crate) fn entries(world: &World, thread: &str) -> Vec<Value> {
    let shown: Did = world.baton(&["threads", "show", thread, "--json"]);
    let shown = shown.json();
    let mut mask = Mask::default();
    let items = shown["items"].as_array().unwrap().iter();
    let kept = items.map(|item| {
        let mut data = item["data"].clone();
        data.as_object_mut().unwrap().remove("provider_id");
        mask.value(json!({"t": item["t"], "data": data}))
    });
    kept.collect()
}
