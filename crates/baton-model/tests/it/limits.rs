//! Every limit of time, with a server that does not keep it, and what cancelling does.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use baton_core::fault::{Code, Fault};
use baton_model::{Delta, Model, ModelEntry, ModelRequest, Timeouts};
use futures_util::StreamExt;

use crate::server::{Answer, Barrier, Server};
use crate::talk::{
    MODEL, NDJSON, at, blocking, failed, heard, limits, line, model, provider, question, said, says,
};

/// Longer than any test takes.
const LONG: u64 = 60_000;

fn late(words: &str) -> Fault {
    Fault::new(Code::LlmTimeout, words)
}

/// What a model says to somebody who could ask another one: if it is marked, only that.
async fn unhurried(model: &Arc<dyn Model>) -> Vec<Result<Delta, Fault>> {
    model.stream(ModelRequest { last_resort: false, ..question() }).collect().await
}

#[tokio::test]
async fn an_answer_that_does_not_begin_in_time_is_a_timeout() {
    let silent = Answer::nothing().stall();
    let head_only = Answer::stream(NDJSON).stall();
    for answer in [silent, head_only] {
        let server = Server::answering([answer]);
        let model = at(provider(&server.url()), limits(50, LONG, LONG));
        assert_eq!(failed(&model).await, late("no answer began within 50 ms (first_byte)"));
        blocking(move || server.until_closed(0)).await;
    }
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle() {
    let server = Server::answering([Answer::stream(NDJSON).chunk(line("half")).stall()]);
    let model = at(provider(&server.url()), limits(LONG, 50, LONG));
    let (deltas, fault) = heard(&model).await;
    assert_eq!(deltas, [Delta::Text("half".to_owned())]);
    assert_eq!(fault, Some(late("the answer stopped for 50 ms before its end (idle)")));
    let [marked] = unhurried(&model).await.try_into().unwrap();
    let words = marked.unwrap_err().message;
    assert!(words.starts_with("ollama/m is marked as degraded for "), "{words}");
    blocking(move || server.until_closed(0)).await;
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_a_timeout() {
    let server = Server::answering([Answer::stream(NDJSON).chunk(line("half")).stall()]);
    let model = at(provider(&server.url()), limits(LONG, LONG, 200));
    let (_, fault) = heard(&model).await;
    assert_eq!(fault, Some(late("the call took longer than 200 ms (total)")));
    blocking(move || server.until_closed(0)).await;
}

#[tokio::test]
async fn a_connection_that_times_out_is_llm_connection() {
    // The system takes the connection, and nobody greets back.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let timeouts = Timeouts { connect: Duration::from_millis(50), ..Timeouts::default() };
    let model = at(provider(&url), ModelEntry { timeouts, ..ModelEntry::new(MODEL) });
    let fault = crate::talk::paused(failed(&model).await);
    let words = format!("cannot connect to {url} within 50 ms");
    assert_eq!(fault, Fault::new(Code::LlmConnection, words).retry_after_ms(500));
}

#[tokio::test]
async fn an_error_body_without_an_end_does_not_delay_its_status() {
    let server = Server::answering([Answer::nothing().head(401, &[], Some(100)).raw("no").stall()]);
    let model = at(provider(&server.url()), limits(LONG, 50, LONG));
    let expected = "the model's server did not accept the key (status 401); it said: no";
    assert_eq!(failed(&model).await, Fault::new(Code::LlmAuth, expected));
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_polled() {
    let server = Server::answering([]);
    let stream = model(&server.url()).stream(question());
    drop(stream);
    // A second call that is answered shows that the server would have seen the first.
    let _ = heard(&model(&server.url())).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_socket() {
    let waiting = Answer::nothing().stall();
    let half = Answer::stream(NDJSON).chunk(line("half")).stall();
    let server = Server::answering([waiting, half]);
    let model = model(&server.url());

    let mut stream = model.stream(question());
    let asked = server.clone();
    tokio::select! {
        delta = stream.next() => panic!("nobody answers, and there is {delta:?}"),
        () = blocking(move || asked.until_requests(1)) => {}
    }
    drop(stream);
    let asked = server.clone();
    blocking(move || asked.until_closed(0)).await;

    let mut stream = model.stream(question());
    assert_eq!(stream.next().await, Some(Ok(Delta::Text("half".to_owned()))));
    drop(stream);
    blocking(move || server.until_closed(1)).await;
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_for_their_turn() {
    let barrier = Barrier::new();
    let first = Answer::stream(NDJSON).chunk(line("first")).wait(&barrier).chunk(crate::talk::done()).end();
    let server = Server::answering([first, says("second")]);
    let model =
        at(provider(&server.url()), ModelEntry { max_concurrency: Some(1), ..limits(LONG, LONG, LONG) });
    let mut one = model.stream(question());
    assert_eq!(one.next().await, Some(Ok(Delta::Text("first".to_owned()))));
    let two = heard(&model);
    tokio::pin!(two);
    tokio::select! {
        biased;
        heard = &mut two => panic!("it did not wait: {heard:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(server.requests().len(), 1);
    barrier.open();
    let rest: Vec<_> = one.map(Result::unwrap).collect().await;
    assert_eq!(rest, said("first")[1..]);
    assert_eq!(two.await, (said("second"), None));
}

#[tokio::test]
async fn a_timeout_in_the_queue_opens_no_breaker() {
    let barrier = Barrier::new();
    let held = Answer::stream(NDJSON).chunk(line("held")).wait(&barrier).chunk(crate::talk::done()).end();
    let server = Server::answering([held, says("next")]);
    let entry = ModelEntry { max_concurrency: Some(1), ..limits(LONG, LONG, 700) };
    let model = at(provider(&server.url()), entry);
    let mut holder = model.stream(question());
    assert_eq!(holder.next().await, Some(Ok(Delta::Text("held".to_owned()))));
    let fault = failed(&model).await;
    assert_eq!(fault.code, Code::LlmTimeout);
    assert!(fault.message.ends_with("for a free place: at most 1 at a time (max_concurrency)"), "{fault:?}");
    barrier.open();
    drop(holder);
    // Had the wait counted as the model's failure, this call would be refused.
    assert_eq!(unhurried(&model).await, said("next").into_iter().map(Ok).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_timeout_after_a_long_wait_in_the_queue_opens_no_breaker() {
    let server = Server::answering([
        Answer::stream(NDJSON).chunk(line("held")).stall(),
        Answer::stream(NDJSON).chunk(line("slow")).stall(),
        says("next"),
    ]);
    let model =
        at(provider(&server.url()), ModelEntry { max_concurrency: Some(1), ..limits(LONG, LONG, 1200) });
    let mut holder = model.stream(question());
    assert_eq!(holder.next().await, Some(Ok(Delta::Text("held".to_owned()))));
    let second = heard(&model);
    tokio::pin!(second);
    // More than half of its time, and then it has the rest.
    let waiting = tokio::time::timeout(Duration::from_millis(700), &mut second).await;
    assert!(waiting.is_err(), "{waiting:?}");
    drop(holder);
    let (_, fault) = second.await;
    assert_eq!(fault, Some(late("the call took longer than 1.2 s (total)")));
    assert_eq!(unhurried(&model).await, said("next").into_iter().map(Ok).collect::<Vec<_>>());
}
