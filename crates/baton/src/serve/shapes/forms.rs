//! The forms of single values: types that are only described.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// The names of the modes.
#[derive(JsonSchema)]
#[schemars(rename = "Mode", rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(dead_code, reason = "described, never made")]
pub(crate) enum ModeName {
    /// As little as possible.
    Conservative,
    /// The default.
    Moderate,
    /// As much as the operator allows.
    Exploratory,
}

/// The names of the decisions.
#[derive(JsonSchema)]
#[schemars(rename = "Choice", rename_all = "snake_case")]
#[allow(dead_code, reason = "described, never made")]
pub(crate) enum ChoiceName {
    /// It runs as asked.
    Approve,
    /// It does not run.
    Deny,
    /// It runs with other arguments.
    Edit,
}

/// A text of a certain form.
macro_rules! form {
    ($name:ident, $shown:literal, $schema:tt) => {
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $shown.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}
form!(Name, "Name", { "type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$" });
form!(Word, "Word", { "type": "string", "pattern": "^[!-~]{1,255}$" });
form!(Id, "Id", { "type": "string", "format": "uuid" });
form!(Place, "Place", { "type": "string", "pattern": "^[0-9]{1,9}\\.[0-9]{1,18}$" });
form!(Moment, "Moment", { "type": "string", "format": "date-time" });
