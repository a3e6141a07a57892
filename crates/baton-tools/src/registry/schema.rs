//! Schemas of tools, compiled with bounds.
//!
//! A schema of an execution service is foreign text, and the arguments that it checks were written by a model.
//! Together they must not cost more than a moment: the programs of patterns are small, back-tracking is
//! bounded, and a text that a pattern checks is short, because nothing can interrupt a check.

use baton_core::json;
use jsonschema::paths::Location;
use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

/// How many mismatches are reported at once, and how long one may be: enough to repair a call.
const MAX_MISMATCHES: usize = 3;
const MAX_MISMATCH_BYTES: usize = 300;
/// The largest program of one pattern, and the most that it may try.
const MAX_COMPILED: usize = 128 * 1024;
const MAX_BACKTRACKS: usize = 10_000;
/// The longest text that is checked against a pattern, and the longest name of a property.
const MAX_CHECKED: usize = 16 * 1024;

/// A compiled schema.
pub(super) struct Schema(Validator);

impl Schema {
    /// Compiles a schema, or says why it is not usable.
    pub(super) fn compile(schema: &Value) -> Result<Schema, String> {
        let options = jsonschema::options().with_pattern_options(patterns()).with_keyword("pattern", pattern);
        let built = options.build(schema);
        built.map(Schema).map_err(|error| json::cut(&error.to_string(), MAX_MISMATCH_BYTES).to_owned())
    }

    /// The mismatches of a value, in one line; `None` if it fits.
    pub(super) fn mismatches(&self, value: &Value) -> Option<String> {
        if has_long_name(value) {
            return Some(format!("a name of a property is longer than {MAX_CHECKED} bytes"));
        }
        let errors = self.0.iter_errors(value).take(MAX_MISMATCHES);
        let mismatches: Vec<String> = errors.map(|error| describe(&error)).collect();
        if mismatches.is_empty() { None } else { Some(mismatches.join("; ")) }
    }
}

fn patterns() -> PatternOptions<jsonschema::FancyRegex> {
    let options = PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS);
    options.size_limit(MAX_COMPILED).dfa_size_limit(2 * MAX_COMPILED)
}

/// The keyword `pattern`, for texts that are not too long for it.
struct Pattern(Validator);

impl<'i> Keyword<'i> for Pattern {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        match instance.as_str() {
            Some(text) if text.len() > MAX_CHECKED => Err(ValidationError::custom(format!(
                "a text that has to match a pattern is longer than {MAX_CHECKED} bytes"
            ))),
            _ => self.0.validate(instance),
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.validate(instance).is_ok()
    }
}

fn pattern<'a>(
    _parent: &'a Map<String, Value>,
    pattern: &'a Value,
    _path: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    let schema = serde_json::json!({ "pattern": pattern });
    let validator = jsonschema::options().with_pattern_options(patterns()).build(&schema)?;
    Ok(Box::new(Pattern(validator)))
}

fn has_long_name(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.len() > MAX_CHECKED || has_long_name(value))
        }
        Value::Array(items) => items.iter().any(has_long_name),
        _ => false,
    }
}

fn describe(error: &ValidationError<'_>) -> String {
    let text = error.to_string();
    let text = json::cut(&text, MAX_MISMATCH_BYTES);
    match error.instance_path().as_str() {
        "" => text.to_owned(),
        path => format!("at {}: {text}", json::cut(path, MAX_MISMATCH_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mismatches(schema: &Value, value: &Value) -> Option<String> {
        Schema::compile(schema).ok().unwrap().mismatches(value)
    }

    #[test]
    fn a_schema_with_a_pattern_that_compiles_too_large_is_refused() {
        for schema in [
            json!({"properties": {"a": {"pattern": "[ab]*a[ab]{90000}c"}}}),
            json!({"patternProperties": {"[ab]*a[ab]{90000}c": {}}}),
            json!({"pattern": r"\p{L}{1000}"}),
        ] {
            assert!(Schema::compile(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn a_pattern_refuses_texts_that_are_too_long() {
        let schema = json!({"properties": {"a": {"pattern": "^[ab]*$"}}});
        assert_eq!(mismatches(&schema, &json!({"a": "abba", "b": "x".repeat(MAX_CHECKED + 1)})), None);
        assert_eq!(mismatches(&schema, &json!({"a": "a".repeat(MAX_CHECKED)})), None);
        let long = "at /a: a text that has to match a pattern is longer than 16384 bytes";
        assert_eq!(mismatches(&schema, &json!({"a": "a".repeat(MAX_CHECKED + 1)})).as_deref(), Some(long));
        let differs = "at /a: \"abc\" does not match \"^[ab]*$\"";
        assert_eq!(mismatches(&schema, &json!({"a": "abc"})).as_deref(), Some(differs));
        let name = "a name of a property is longer than 16384 bytes";
        let named = json!([{"a".repeat(MAX_CHECKED + 1): 1}]);
        assert_eq!(
            mismatches(&json!({"items": {"patternProperties": {"a$": {}}}}), &named).as_deref(),
            Some(name)
        );
    }

    #[test]
    fn a_pattern_that_backtracks_too_much_is_stopped() {
        let schema = json!({"pattern": r"^(a|a)*\1b"});
        let mismatch = mismatches(&schema, &json!("a".repeat(40))).unwrap();
        assert!(mismatch.contains("Max limit for backtracking count exceeded"), "{mismatch}");
    }
}
