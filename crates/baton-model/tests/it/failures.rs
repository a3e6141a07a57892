//! Every class of failure, provoked over a real socket.

use baton_core::fault::{Code, Fault};
use baton_model::wire::Wire;
use baton_model::{Delta, ModelEntry};
use futures_util::StreamExt;

use crate::server::{Answer, Barrier, Server};
use crate::talk::{MODEL, NDJSON, at, failed, heard, keyed, line, model, paused, question};

fn text(text: &str) -> Delta {
    Delta::Text(text.to_owned())
}

#[tokio::test]
async fn a_server_that_is_not_there_is_llm_connection() {
    let url = Server::nobody();
    let words = format!("cannot connect to {url}: Connection refused (os error 111); is the server running?");
    let expected = Fault::new(Code::LlmConnection, words).retry_after_ms(500);
    assert_eq!(paused(failed(&model(&url)).await), expected);
}

#[tokio::test]
async fn a_reset_in_the_middle_of_an_answer_is_the_connection_s_failure() {
    let barrier = Barrier::new();
    let server = Server::answering([Answer::stream(NDJSON).chunk(line("half")).wait(&barrier).reset()]);
    let mut stream = model(&server.url()).stream(question());
    assert_eq!(stream.next().await, Some(Ok(text("half"))));
    barrier.open();
    let fault = stream.next().await.unwrap().unwrap_err();
    let words = format!(
        "the connection to {} broke in the middle of the answer: Connection reset by peer (os error 104)",
        server.url()
    );
    assert_eq!(paused(fault), Fault::new(Code::LlmConnection, words).retry_after_ms(500));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_body_that_ends_before_its_announced_end_is_the_connection_s_failure() {
    let short =
        Answer::nothing().head(200, &[("content-type", NDJSON)], Some(5000)).raw(line("half")).hang_up();
    for answer in [short, Answer::stream(NDJSON).chunk(line("half")).hang_up()] {
        let server = Server::answering([answer]);
        let (deltas, fault) = heard(&model(&server.url())).await;
        let fault = paused(fault.unwrap());
        assert_eq!((deltas, fault.code), (vec![text("half")], Code::LlmConnection));
        let begins = format!("the connection to {} broke in the middle of the answer: ", server.url());
        assert!(fault.message.starts_with(&begins), "{}", fault.message);
    }
}

#[tokio::test]
async fn a_stream_that_ends_properly_without_its_marker_is_a_failure() {
    let server = Server::answering([Answer::stream(NDJSON).chunk(line("half")).end()]);
    let (deltas, fault) = heard(&model(&server.url())).await;
    let expected = Fault::new(Code::LlmConnection, "the model's stream ended before it was complete");
    assert_eq!((deltas, paused(fault.unwrap())), (vec![text("half")], expected.retry_after_ms(500)));
}

#[tokio::test]
async fn a_connection_that_closes_without_an_answer() {
    let server = Server::answering([Answer::nothing().hang_up()]);
    let fault = paused(failed(&model(&server.url())).await);
    assert_eq!(fault.code, Code::LlmConnection);
    let begins = format!("the connection to {} broke before it answered: ", server.url());
    assert!(fault.message.starts_with(&begins), "{}", fault.message);
}

/// The code that a status leads to, and whether another try is worth it.
async fn class(answer: Answer) -> (Code, Option<u64>) {
    let server = Server::answering([answer]);
    let fault = failed(&model(&server.url())).await;
    (fault.code, fault.retry_after_ms.map(|pause| if (450..=550).contains(&pause) { 500 } else { pause }))
}

#[tokio::test]
async fn each_status_has_its_class() {
    let table = [
        (401, r#"{"error":"no"}"#, (Code::LlmAuth, None)),
        (403, r#"{"error":{"message":"no"}}"#, (Code::LlmAuth, None)),
        (429, r#"{"error":"slow down"}"#, (Code::LlmRateLimited, Some(500))),
        (500, r#"{"error":"boom"}"#, (Code::LlmServer, Some(500))),
        (500, "not even JSON", (Code::LlmServer, Some(500))),
        (
            503,
            r#"{"error":{"type":"unavailable_error","message":"Loading model"}}"#,
            (Code::LlmServer, Some(500)),
        ),
        (404, r#"{"error":"model 'm' not found"}"#, (Code::LlmConnection, None)),
        (
            400,
            r#"{"error":{"type":"exceed_context_size_error","message":"too long","n_prompt_tokens":9,"n_ctx":8}}"#,
            (Code::ContextTooLong, None),
        ),
    ];
    for (status, body, expected) in table {
        assert_eq!(class(Answer::json(status, body)).await, expected, "{status} {body}");
    }
}

#[tokio::test]
async fn a_server_says_when_to_come_back() {
    let date = ("date", "Wed, 21 Oct 2026 07:28:00 GMT");
    let table = [
        (429, vec![("retry-after", "7")], (Code::LlmRateLimited, Some(7000))),
        (429, vec![("retry-after", "0.25")], (Code::LlmRateLimited, Some(250))),
        (
            429,
            vec![("retry-after", "Wed, 21 Oct 2026 07:28:09 GMT"), date],
            (Code::LlmRateLimited, Some(9000)),
        ),
        (429, vec![("retry-after", "86400")], (Code::LlmRateLimited, Some(3_600_000))),
        (429, vec![("retry-after", "whenever")], (Code::LlmRateLimited, Some(500))),
        (503, vec![("retry-after", "2")], (Code::LlmServer, Some(2000))),
        (401, vec![("retry-after", "2")], (Code::LlmAuth, None)),
    ];
    for (status, headers, expected) in table {
        assert_eq!(class(Answer::whole(status, &headers, "")).await, expected, "{status} {headers:?}");
    }
}

#[tokio::test]
async fn our_own_pause_grows_with_the_attempt() {
    let server = Server::answering([Answer::json(500, "{}"), Answer::json(500, "{}")]);
    let model = model(&server.url());
    for (attempt, pauses) in [(1, 450..=550), (2, 1170..=1430)] {
        let request = baton_model::ModelRequest { attempt, ..question() };
        let fault = model.stream(request).next().await.unwrap().unwrap_err();
        let pause = fault.retry_after_ms.unwrap();
        assert!(pauses.contains(&pause), "{attempt}: {pause}");
    }
}

#[tokio::test]
async fn a_missing_path_is_named_in_the_fault() {
    let key = "hunter2-hunter2";
    let server = Server::deciding(|_, _| Answer::json(404, r#"{"error":"nothing here"}"#));
    let provider = keyed(&format!("{}/gate/{key}", server.url()), Wire::Anthropic, key);
    let words = "the model, or the path to it, is not there; check its name and address \
                 (status 404 at /gate/[redacted]/v1/messages); it said: nothing here";
    let fault = failed(&at(provider, ModelEntry::new(MODEL))).await;
    assert_eq!(fault, Fault::new(Code::LlmConnection, words));
    assert_eq!(server.paths(), [format!("/gate/{key}/v1/messages")]);
}

#[tokio::test]
async fn a_web_page_is_no_answer() {
    let page = Answer::whole(200, &[("content-type", "text/html; charset=utf-8")], "<html>Welcome</html>");
    let server = Server::answering([page]);
    let words = format!("{} answered with a web page; is base_url right?", server.url());
    assert_eq!(failed(&model(&server.url())).await, Fault::new(Code::LlmInvalidResponse, words));
}

#[tokio::test]
async fn an_unreadable_answer_is_an_invalid_response() {
    let answers = [
        Answer::stream(NDJSON).chunk("{\"message\": oops}\n").end(),
        Answer::json(200, "[1, 2"),
        Answer::stream(NDJSON).chunk([b'"', 0xff, b'"', b'\n']).end(),
    ];
    for answer in answers {
        let server = Server::answering([answer]);
        let fault = failed(&model(&server.url())).await;
        assert_eq!((fault.code, fault.retry_after_ms), (Code::LlmInvalidResponse, None), "{fault:?}");
    }
}

#[tokio::test]
async fn a_compressed_body_is_refused() {
    let packed = Answer::whole(200, &[("content-type", NDJSON), ("content-encoding", "gzip")], "\u{1f}...");
    let server = Server::answering([packed]);
    let words = format!("{} compressed its answer (gzip) although nobody asked", server.url());
    assert_eq!(failed(&model(&server.url())).await, Fault::new(Code::LlmInvalidResponse, words));
}

#[tokio::test]
async fn an_endless_document_is_not_read_to_its_end() {
    let mut endless = Answer::stream("application/json");
    for _ in 0..17 {
        endless = endless.chunk(vec![b' '; 1 << 20]);
    }
    let server = Server::answering([endless.stall()]);
    let words = format!("{} answered with more than 16 MiB", server.url());
    assert_eq!(failed(&model(&server.url())).await, Fault::new(Code::LlmInvalidResponse, words));
}

#[tokio::test]
async fn an_endless_complaint_is_not_read_to_its_end() {
    let mut endless = Answer::nothing().head(500, &[], None);
    for _ in 0..100 {
        endless = endless.chunk(vec![b'x'; 1000]);
    }
    let server = Server::answering([endless.stall()]);
    let fault = failed(&model(&server.url())).await;
    assert_eq!(fault.code, Code::LlmServer);
    assert!(fault.message.len() < 3000, "{} bytes", fault.message.len());
}

#[tokio::test]
async fn an_error_inside_an_answer_that_began_well() {
    let error = "{\"error\":\"CUDA out of memory\"}\n";
    let server = Server::answering([Answer::stream(NDJSON).chunk(line("half")).chunk(error).end()]);
    let (deltas, fault) = heard(&model(&server.url())).await;
    let fault = paused(fault.unwrap());
    assert_eq!((deltas, fault.code), (vec![text("half")], Code::LlmServer));
    assert!(fault.message.contains("CUDA out of memory"), "{}", fault.message);
}

#[tokio::test]
async fn a_redirect_is_refused_and_the_key_stays() {
    let stranger = Server::answering([]);
    let location = format!("{}/elsewhere?token=t0ps3cret#x", stranger.url());
    let server = Server::answering([Answer::whole(307, &[("location", &location)], "")]);
    let model = at(keyed(&server.url(), Wire::Ollama, "sk-key"), baton_model::ModelEntry::new("ollama/m"));
    let words = format!(
        "{} answered with a redirect (307) to {}/elsewhere, which is not followed; \
         if that is right, make it the base_url",
        server.url(),
        stranger.url()
    );
    assert_eq!(failed(&model).await, Fault::new(Code::LlmConnection, words));
    assert_eq!(stranger.requests(), []);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_key_that_a_server_repeats_is_not_shown() {
    let key = "hunter2-hunter2";
    let echo = format!("{{\"error\":\"the key {key} is wrong, {key}!\"}}");
    let in_stream = Answer::stream(NDJSON).chunk(line("a")).chunk(format!("{echo}\n")).end();
    let plain = Answer::whole(500, &[], &format!("{} {key}", "x".repeat(295)));
    let redirect = Answer::whole(302, &[("location", &format!("/{key}"))], "");
    for answer in [Answer::json(401, &echo), Answer::json(500, &echo), plain, redirect, in_stream] {
        let server = Server::answering([answer]);
        let model = at(keyed(&server.url(), Wire::Ollama, key), baton_model::ModelEntry::new("ollama/m"));
        let (_, fault) = heard(&model).await;
        let shown = format!("{:?}", fault.unwrap());
        assert!(!shown.contains("hun"), "{shown}");
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_refused_unseen() {
    let server = Server::answering([]);
    let model =
        at(keyed(&server.url(), Wire::Ollama, "two\nlines"), baton_model::ModelEntry::new("ollama/m"));
    let words = "the key holds characters that no header can carry; is it the key?";
    assert_eq!(failed(&model).await, Fault::new(Code::LlmAuth, words));
    assert_eq!(server.requests(), []);
}
