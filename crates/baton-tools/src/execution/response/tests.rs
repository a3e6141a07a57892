use serde_json::json;

use super::*;
use crate::secret::Secret;

fn said(document: Value) -> Result<Output, ToolError> {
    let of = ServiceClient::new("http://127.0.0.1:1", None).unwrap();
    let body = document.to_string().into_bytes();
    parse_result(ServiceResponse { status: 200, has_retry_after: false, body, is_cut: false }, &of)
}

fn failed(words: &str) -> Result<Output, ToolError> {
    Err(ToolError { cause: Cause::Asked, ..ToolError::new(words) })
}

#[test]
fn unknown_fields_of_a_response_are_ignored() {
    let document =
        json!({"status": "success", "output": "x", "error": null, "message": "done", "detail": []});
    assert_eq!(said(document), Ok(Output::Text("x".to_owned())));
}

#[test]
fn the_first_field_with_a_text_is_the_error_message() {
    let of = |document| said(document);
    assert_eq!(
        of(json!({"status": "error", "output": "", "error": " ", "message": "no disk", "detail": "at 3"})),
        failed("no disk")
    );
    assert_eq!(
        of(json!({"status": "error", "error": {"code": 7}, "message": "no disk"})),
        failed(r#"{"code":7}"#)
    );
    assert_eq!(of(json!({"status": "error", "output": null, "detail": "at 3"})), failed("at 3"));
    assert_eq!(of(json!({"status": "odd"})), failed("The execution service says \"odd\" and nothing more."));
}

#[test]
fn a_token_that_is_repeated_is_redacted_in_names_and_values() {
    let of = ServiceClient::new("http://127.0.0.1:1", Some(Secret::new("s3cret42"))).unwrap();
    let said = json!({"a": ["s3cret42!", 1, {"x-s3cret42": "y", "z": "xs3cret42s3cret42"}], "b": null, "c": "secret"});
    let told = json!({
        "a": ["[redacted]!", 1, {"x-[redacted]": "y", "z": "x[redacted][redacted]"}], "b": null, "c": "secret",
    });
    assert_eq!(without_token(said.clone(), &of), told);
    let without_any = ServiceClient::new("http://127.0.0.1:1", None).unwrap();
    assert_eq!(without_token(said.clone(), &without_any), said);
}
