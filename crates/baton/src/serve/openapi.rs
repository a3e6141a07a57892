//! `GET /openapi.json`: the API as OpenAPI 3.1, made from the table of routes and their request and answer types.
//!
//! Nothing is described by hand that the code does not also use, except the headers that all routes share. The document
//! is made once per process.

mod operation;

use std::sync::OnceLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::problem::PROBLEM_JSON;
use super::shapes::answers::Problem;
use crate::router::ROUTES;

/// A short description of the API.
const ABOUT: &str = "Runs AI agents durably: messages in, events out; threads that branch; runs that can be watched, \
                     steered, approved, cancelled and resumed on any process.";

/// Serves the document.
pub(crate) async fn openapi() -> Response {
    static MADE: OnceLock<Bytes> = OnceLock::new();
    let made = MADE.get_or_init(|| Bytes::from(document().to_string()));
    ([(CONTENT_TYPE, "application/json")], made.clone()).into_response()
}

/// The document.
pub(crate) fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = operation::describe(route, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str()] = operation;
    }
    let problem = schemas.taken(|generator| generator.subschema_for::<Problem>());
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Baton", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas.defined(),
            "responses": {"Problem": {
                "description": "It was refused; `code` and `detail` say why, and what to send instead",
                "content": {PROBLEM_JSON: {"schema": problem}},
                "headers": {"retry-after": {
                    "description": "Seconds after which the same may work",
                    "schema": {"type": "integer"},
                }},
            }},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// The schemas of all requests and answers.
///
/// A type may look different in the two directions: a field that a request may leave out is always in an answer.
pub(super) struct Schemas {
    taken: SchemaGenerator,
    given: SchemaGenerator,
}

impl Schemas {
    fn new() -> Schemas {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        let given = settings().for_serialize().into_generator();
        Schemas { taken: settings().into_generator(), given }
    }

    /// The schema of a request, or of a type that is only described.
    fn taken(&mut self, make: impl FnOnce(&mut SchemaGenerator) -> schemars::Schema) -> Value {
        make(&mut self.taken).to_value()
    }

    /// The schema of an answer.
    fn given(&mut self, make: impl FnOnce(&mut SchemaGenerator) -> schemars::Schema) -> Value {
        make(&mut self.given).to_value()
    }

    /// The schema of a query, with its parts inlined.
    fn inline(&self, make: impl FnOnce(&mut SchemaGenerator) -> schemars::Schema) -> Value {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        make(&mut settings.into_generator()).to_value()
    }

    fn defined(mut self) -> Map<String, Value> {
        let mut all = self.given.take_definitions(true);
        all.extend(self.taken.take_definitions(true));
        all
    }
}

#[cfg(test)]
mod tests;
