//! One operation of the OpenAPI document, from one row of the table of routes.

use serde_json::{Map, Value, json};

use super::super::stream::EVENT_STREAM;
use super::Schemas;
use crate::dialect::sse::{AGENT_NAMES, RAW_NAMES};
use crate::router::{Answer, Route};

/// Describes a route.
pub(super) fn describe(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = json!({
        "operationId": route.operation,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": responses(route, schemas),
    });
    let parameters = parameters(route, schemas);
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = route.body {
        let schema = schemas.taken(body);
        let content = json!({"application/json": {"schema": schema}});
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    // A service without tokens asks for none: then the second of the two applies.
    operation["security"] = if route.is_open { json!([]) } else { json!([{"bearer": []}, {}]) };
    if let Some(scope) = route.scope {
        operation["description"] = json!(format!("Needs the scope `{}`.", scope.as_str()));
    }
    operation
}

fn parameters(route: &Route, schemas: &mut Schemas) -> Vec<Value> {
    let in_path = |name: &str| {
        let schema = match name {
            "sha256" => json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
            "id" if route.path.starts_with("/v1/runs/") => json!({"type": "string", "format": "uuid"}),
            "id" | "name" => json!({"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"}),
            _ => json!({"type": "string", "minLength": 1}),
        };
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    };
    let parts = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = parts.map(in_path).collect();
    if let Some(query) = route.query {
        all.extend(in_query(query, schemas));
    }
    let header = |name: &str, description: &str, schema: Value| json!({"name": name, "in": "header", "required": false, "description": description, "schema": schema});
    if route.is_keyed {
        let schema = json!({"type": "string", "pattern": "^[!-~]{1,255}$"});
        all.push(header("Idempotency-Key", "The same key and body begin the same thing only once", schema));
    }
    if route.is_resumable {
        // A reader that has seen nothing may send an empty value.
        let schema = json!({"type": "string", "pattern": "^([0-9]{1,9}\\.[0-9]{1,18})?$"});
        all.push(header("Last-Event-ID", "Only what comes after this place: `id` of an event", schema));
    }
    if route.names_run && route.body.is_some() {
        all.push(header("traceparent", "The span that this is a part of", json!({"type": "string"})));
    }
    all
}

/// A query is an object whose fields are the parameters.
fn in_query(query: crate::router::Schema, schemas: &mut Schemas) -> Vec<Value> {
    let schema = schemas.inline(query);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten();
    let field = |(name, schema): (&String, &Value)| {
        let mut schema = without_null(schema.clone());
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({
            "name": name, "in": "query", "required": required.contains(&name.as_str()), "schema": schema,
            "description": description.unwrap_or_default(),
        })
    };
    fields.map(field).collect()
}

/// Removes null: an absent parameter of a URL is absent, and cannot be null.
fn without_null(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("default");
    }
    if let Some(kinds) = schema.get("type").and_then(Value::as_array) {
        let kinds: Vec<Value> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        schema["type"] = match kinds.as_slice() {
            [only] => only.clone(),
            _ => Value::Array(kinds),
        };
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    let is_null = |schema: &Value| schema["type"] == "null";
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        let rest: Vec<Value> = any.iter().filter(|schema| !is_null(schema)).cloned().collect();
        if let ([only], Some(fields)) = (rest.as_slice(), schema.as_object()) {
            let mut merged: Map<String, Value> = fields.clone();
            merged.remove("anyOf");
            merged.extend(only.as_object().cloned().unwrap_or_default());
            return Value::Object(merged);
        }
    }
    schema
}

fn responses(route: &Route, schemas: &mut Schemas) -> Value {
    let mut all = Map::new();
    for (status, answer) in route.answers.iter().flatten() {
        let mut response = json!({"description": described(answer)});
        let content = match answer {
            Answer::Json(schema) => Some(json!({"application/json": {"schema": schemas.given(schema)}})),
            Answer::Events => Some(json!({EVENT_STREAM: {"schema": event()}})),
            Answer::Bytes(media) => Some(json!({*media: {"schema": {"type": "string"}}})),
            Answer::Nothing => None,
        };
        if let Some(content) = content {
            response["content"] = content;
        }
        if route.names_run {
            response["headers"] = named();
        }
        all.insert(status.to_string(), response);
    }
    for status in route.problems() {
        all.insert(status.to_string(), json!({"$ref": "#/components/responses/Problem"}));
    }
    Value::Object(all)
}

/// One event of a stream.
fn event() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "A place to come back to, where it is an event of the log"},
            "event": {"type": "string", "enum": names()},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
        "required": ["event", "data"],
    })
}

/// The names of events, in any dialect.
fn names() -> Vec<&'static str> {
    let mut all = [AGENT_NAMES.as_slice(), RAW_NAMES.as_slice()].concat();
    all.sort_unstable();
    all.dedup();
    all
}

fn described(answer: &Answer) -> String {
    match answer {
        Answer::Json(_) | Answer::Bytes(_) => "It worked".to_owned(),
        Answer::Nothing => "It is done".to_owned(),
        Answer::Events => format!(
            "Events: `id` is a place to come back to, `data` is one line of JSON, `event` its type, in the dialect \
             `agent` one of {}",
            AGENT_NAMES.join(", ")
        ),
    }
}

/// The headers of every answer about a run.
fn named() -> Value {
    let header = |what: &str| json!({"description": what, "schema": {"type": "string"}});
    json!({
        "x-run-id": header("The run"),
        "x-thread-id": header("Its thread"),
        "x-trace-id": header("The trace that it is part of"),
        "x-correlation-id": header("What belongs together"),
    })
}
