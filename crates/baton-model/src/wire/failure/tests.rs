use baton_core::fault::{Code, Fault};
use serde_json::{Value, json};

use super::*;

fn status(status: u16, body: Value) -> Fault {
    fault_from_status(status, body.to_string().as_bytes())
}

fn openai(message: &str, kind: &str, code: Value) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn fault(code: Code, retry: bool, message: &str) -> Fault {
    let fault = Fault::new(code, message);
    if retry { fault.retry_after_ms(0) } else { fault }
}

fn too_long(fits_tokens: Option<u64>, message: &str) -> Fault {
    Fault { fits_tokens, ..Fault::new(Code::ContextTooLong, message) }
}

#[test]
fn a_status_without_a_body_has_its_message() {
    let not_there = "the model, or the path to it, is not there; check its name and address";
    let table: [(u16, Code, bool, &str); 22] = [
        (302, Code::LlmConnection, false, not_there),
        (400, Code::LlmInvalidResponse, false, "the model's server did not take the request"),
        (401, Code::LlmAuth, false, "the model's server did not accept the key"),
        (402, Code::LlmAuth, false, "the account at the model's server has no credit left"),
        (403, Code::LlmAuth, false, "the model's server did not accept the key"),
        (404, Code::LlmConnection, false, not_there),
        (405, Code::LlmConnection, false, not_there),
        (
            407,
            Code::LlmConnection,
            false,
            "the proxy on the way to the model's server wants to know who we are",
        ),
        (408, Code::LlmTimeout, false, "the model's server gave up waiting for the model"),
        (410, Code::LlmConnection, false, not_there),
        (413, Code::ContextTooLong, false, "the conversation is too long for the model"),
        (418, Code::LlmInvalidResponse, false, "the model's server did not take the request"),
        (422, Code::LlmInvalidResponse, false, "the model's server did not take the request"),
        (429, Code::LlmRateLimited, true, "the model's server asks to slow down"),
        (500, Code::LlmServer, true, "the model's server failed"),
        (501, Code::LlmServer, false, "the model's server cannot do this"),
        (502, Code::LlmServer, true, "the model's server failed"),
        (503, Code::LlmServer, true, "the model's server failed"),
        (504, Code::LlmTimeout, false, "the model's server gave up waiting for the model"),
        (505, Code::LlmServer, false, "the model's server cannot do this"),
        (529, Code::LlmServer, true, "the model's server failed"),
        (599, Code::LlmServer, true, "the model's server failed"),
    ];
    for (status, code, retry, words) in table {
        assert_eq!(fault_from_status(status, b""), fault(code, retry, &format!("{words} (status {status})")));
    }
}

#[test]
fn a_missing_path_is_named_in_the_fault() {
    let message =
        |status, body: &str| fault_from_status_at(status, body.as_bytes(), "/x/v1/messages").message;
    let not_there = "the model, or the path to it, is not there; check its name and address";
    assert_eq!(message(404, ""), format!("{not_there} (status 404 at /x/v1/messages)"));
    assert_eq!(message(405, "no"), format!("{not_there} (status 405 at /x/v1/messages); it said: no"));
    assert_eq!(message(500, ""), "the model's server failed (status 500)");
}

#[test]
fn servers_put_some_failures_under_other_numbers() {
    let quota = openai("You exceeded your current quota", "insufficient_quota", json!("insufficient_quota"));
    let table = [
        (
            status(429, quota.clone()),
            fault(
                Code::LlmAuth,
                false,
                "the account at the model's server has no credit left (status 429); it said: You exceeded your \
                 current quota",
            ),
        ),
        (
            fault_in_answer(&quota),
            fault(
                Code::LlmAuth,
                false,
                "the account at the model's server has no credit left; it said: You exceeded your current quota",
            ),
        ),
        (
            status(400, openai("Incorrect API key", "invalid_request_error", json!("invalid_api_key"))),
            fault(
                Code::LlmAuth,
                false,
                "the model's server did not accept the key (status 400); it said: Incorrect API key",
            ),
        ),
        (
            status(400, openai("flagged", "invalid_request_error", json!("content_policy_violation"))),
            fault(
                Code::Refused,
                false,
                "the model's server refused the request (status 400); it said: flagged",
            ),
        ),
        (
            status(400, openai("Unknown parameter: 'x'", "invalid_request_error", Value::Null)),
            fault(
                Code::LlmInvalidResponse,
                false,
                "the model's server did not take the request (status 400); it said: Unknown parameter: 'x'",
            ),
        ),
    ];
    for (found, expected) in table {
        assert_eq!(found, expected);
    }
}

#[test]
fn t8_every_way_of_saying_too_long_says_how_much_fits() {
    let llama = json!({"error": {
        "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9012, "n_ctx": 8192,
        "message": "the request exceeds the available context size. try increasing the context size",
    }});
    let anthropic = |message: &str| json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    let own = |message: &str| openai(message, "invalid_request_error", json!("context_length_exceeded"));
    let vllm = json!({"object": "error", "type": "BadRequestError", "code": 400, "message":
        "This model's maximum context length is 2048 tokens. However, you requested 2500 tokens."});
    let table: [(u16, Value, Option<u64>); 14] = [
        (400, llama.clone(), Some(8192)),
        (500, llama, Some(8192)),
        (
            400,
            own(
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            ),
            Some(8192),
        ),
        (400, own("Your input exceeds the context window of this model."), None),
        (400, vllm, Some(2048)),
        (400, anthropic("prompt is too long: 210000 tokens > 200000 maximum"), Some(200_000)),
        (
            400,
            anthropic(
                "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length",
            ),
            Some(200_000),
        ),
        (413, anthropic("Request exceeds the maximum size"), None),
        (400, json!({"error": "the input length exceeds the context length"}), None),
        (500, json!({"error": "prompt too long; exceeded max context length by 12 tokens"}), None),
        (400, json!({"error": "Input length 6491 exceeds context length 1500"}), Some(1500)),
        (
            400,
            json!({"error": "Trying to keep the first 6000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}),
            Some(4096),
        ),
        (
            422,
            json!({"detail": "Prompt contains 33000 tokens, too large for model with 32768 maximum context length"}),
            Some(32_768),
        ),
        (
            429,
            openai(
                "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45000",
                "tokens",
                json!("rate_limit_exceeded"),
            ),
            None,
        ),
    ];
    for (number, body, fits) in table {
        let found = status(number, body.clone());
        let words = excerpt::plain(ErrorReport::of(&body).words.as_str());
        let message =
            format!("the conversation is too long for the model (status {number}); it said: {words}");
        assert_eq!(found, too_long(fits, &message));
        if number != 413 {
            let message = format!("the conversation is too long for the model; it said: {words}");
            assert_eq!(fault_in_answer(&body), too_long(fits, &message));
        }
    }
}

#[test]
fn words_that_only_sound_like_it_are_not_too_long() {
    for words in ["failed to allocate a context window", "unknown field `context length`", "the maximum is 5"]
    {
        assert_eq!(status(400, json!({"error": words})).code, Code::LlmInvalidResponse, "{words}");
    }
    // A key or a path that is wrong stays that.
    let body = json!({"error": "maximum context length exceeded"});
    assert_eq!(status(401, body.clone()).code, Code::LlmAuth);
    assert_eq!(status(404, body).code, Code::LlmConnection);
}

#[test]
fn t9_a_model_that_is_still_loading_may_be_asked_again() {
    let loading = json!({"error": {"code": 503, "type": "unavailable_error", "message": "Loading model"}});
    let words = "the model's server failed (status 503); it said: Loading model";
    assert_eq!(status(503, loading.clone()), fault(Code::LlmServer, true, words));
    let words = "the model's server failed; it said: Loading model";
    assert_eq!(fault_in_answer(&loading), fault(Code::LlmServer, true, words));
}

#[test]
fn t15_an_error_may_be_a_text_or_an_object_everywhere() {
    let shapes = [
        json!({"error": "boom"}),
        json!({"error": {"message": "boom"}}),
        json!({"type": "error", "error": {"type": "api_error", "message": "boom"}}),
        json!({"object": "error", "message": "boom"}),
        json!({"message": "boom"}),
        json!({"detail": "boom"}),
        json!({"error": {"error": "boom"}}),
        json!("boom"),
    ];
    for shape in shapes {
        let expected = fault(Code::LlmServer, true, "the model's server failed (status 500); it said: boom");
        assert_eq!(status(500, shape.clone()), expected, "{shape}");
        let expected = fault(Code::LlmServer, true, "the model's server failed; it said: boom");
        assert_eq!(fault_in_answer(&shape), expected, "{shape}");
    }
    let odd = json!({"error": {"reason": ["x"]}});
    let expected = "the model's server failed; it said: {\"reason\":[\"x\"]}";
    assert_eq!(fault_in_answer(&odd), fault(Code::LlmServer, true, expected));
    assert_eq!(fault_in_answer(&Value::Null), fault(Code::LlmServer, true, "the model's server failed"));
}

#[test]
fn a_failure_inside_an_answer_is_known_by_its_type_its_code_or_its_number() {
    let table = [
        (json!({"type": "overloaded_error"}), Code::LlmServer, Some(0)),
        (json!({"type": "rate_limit_error"}), Code::LlmRateLimited, Some(0)),
        (json!({"code": "rate_limit_exceeded"}), Code::LlmRateLimited, Some(0)),
        (json!({"type": "authentication_error"}), Code::LlmAuth, None),
        (json!({"type": "timeout_error"}), Code::LlmTimeout, None),
        (json!({"type": "not_found_error"}), Code::LlmConnection, None),
        (json!({"code": "content_filter"}), Code::Refused, None),
        (json!({"type": "invalid_request_error"}), Code::LlmInvalidResponse, None),
        (json!({"type": "unheard_of", "code": 429}), Code::LlmRateLimited, Some(0)),
        (json!({"code": 401}), Code::LlmAuth, None),
        (json!({"code": 400}), Code::LlmInvalidResponse, None),
        (json!({"code": 7}), Code::LlmServer, Some(0)),
        (json!({"code": "unheard_of"}), Code::LlmServer, Some(0)),
    ];
    for (mut error, code, retry) in table {
        error["message"] = "x".into();
        let found = fault_in_answer(&json!({"error": error}));
        assert_eq!((found.code, found.retry_after_ms), (code, retry), "{error}");
    }
}

#[test]
fn a_proxys_page_becomes_a_few_plain_words() {
    let page = "<!DOCTYPE html>\r\n<html><head><title>502 Bad Gateway</title><style>h1 { color: red }</style>\
                <SCRIPT>alert('x')</script></head>\n<body>\n<center><h1>502 Bad Gateway</h1></center>\n<hr>nginx</body></html>";
    let words = "the model's server failed (status 502); it said: 502 Bad Gateway 502 Bad Gateway nginx";
    assert_eq!(fault_from_status(502, page.as_bytes()), fault(Code::LlmServer, true, words));
    assert_eq!(
        fault_from_status(502, b"<html"),
        fault(Code::LlmServer, true, "the model's server failed (status 502)")
    );
}

#[test]
fn a_servers_words_are_short_plain_and_one_line() {
    let said = |words: &str| excerpt::plain(words);
    assert_eq!(said(" a\n\tb\u{1b}[31m \u{0}c\u{7f}\u{85}d "), "a b [31m c d");
    assert_eq!(said(&"é".repeat(301)), format!("{}…", "é".repeat(300)));
    assert_eq!(said(&"é".repeat(300)), "é".repeat(300));
    assert_eq!(said(&"ab ".repeat(1_000_000)).chars().count(), 301);
    assert_eq!(
        fault_from_status(500, b"\xff\xfe bad").message,
        "the model's server failed (status 500); it said: \u{fffd}\u{fffd} bad"
    );
}

#[test]
fn text_that_looks_like_a_key_is_not_repeated() {
    let found = |number, words: &str| status(number, json!({"error": words})).message;
    assert_eq!(
        found(401, "Incorrect API key provided: sk-proj-abc123. See https://platform.example.com/keys."),
        "the model's server did not accept the key (status 401); it said: Incorrect API key provided: … See \
         https://platform.example.com/keys."
    );
    assert_eq!(
        found(403, "key \"AIzaSyD4f8a0b1c2d3e4f5a6b7c8d9e0f\" is for claude"),
        "the model's server did not accept the key (status 403); it said: key \"…\" is for claude"
    );
    assert_eq!(
        found(400, "model claude-3-5-sonnet-20241022 with sk-ant-1 is unknown"),
        "the model's server did not take the request (status 400); it said: model claude-3-5-sonnet-20241022 with … \
         is unknown"
    );
}
