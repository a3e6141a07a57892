use super::*;

#[test]
fn a_missing_model_is_not_a_missing_address() {
    let table: [(u16, &str, bool); 12] = [
        (404, "404 page not found", true),
        (404, "", true),
        (404, r#"{"detail":"Not Found"}"#, true),
        (404, r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#, true),
        (405, "Method Not Allowed", true),
        (501, r#"{"error":"not implemented"}"#, true),
        (404, r#"{"error":"model 'x' not found"}"#, false),
        (404, r#"{"error":{"message":"The Model `x` does not exist","code":"model_not_found"}}"#, false),
        (400, "", false),
        (401, "", false),
        (500, "", false),
        (200, "", false),
    ];
    for (status, error_body, expected) in table {
        assert_eq!(is_missing_path(status, error_body.as_bytes()), expected, "{status} {error_body}");
    }
}

fn permits(endpoint: &Breaker, model: &Breaker, counts_timeout: bool) -> CallPermits {
    let permit = |breaker: &Breaker| breaker.admit(now(), true).unwrap();
    CallPermits { endpoint: permit(endpoint), model: permit(model), counts_timeout }
}

#[test]
fn a_timeout_marks_the_model_and_a_broken_server_the_endpoint() {
    let passing = |code| Fault::new(code, "x").retry_after_ms(1);
    let fatal = |code| Fault::new(code, "x");
    let table = [
        (fatal(Code::LlmTimeout), true, [None, Some(Code::LlmTimeout)]),
        (fatal(Code::LlmTimeout), false, [None, None]),
        (passing(Code::LlmConnection), true, [Some(Code::LlmConnection), None]),
        (passing(Code::LlmServer), true, [Some(Code::LlmServer), None]),
        (fatal(Code::LlmConnection), true, [None, None]),
        (fatal(Code::LlmServer), true, [None, None]),
        (passing(Code::LlmRateLimited), true, [None, None]),
        (fatal(Code::LlmAuth), true, [None, None]),
        (fatal(Code::LlmInvalidResponse), true, [None, None]),
        (fatal(Code::ContextTooLong), true, [None, None]),
    ];
    for (fault, counts_timeout, expected) in table {
        let (endpoint, model) = (Breaker::new("endpoint"), Breaker::new("model"));
        (0..5).for_each(|_| permits(&endpoint, &model, counts_timeout).failed(&fault));
        let refusals =
            [&endpoint, &model].map(|breaker| breaker.admit(now(), false).err().map(|fault| fault.code));
        assert_eq!(refusals, expected, "{fault:?} counts_timeout: {counts_timeout}");
    }
}
