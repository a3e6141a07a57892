//! `handle_user_request`: in every case, there is one structured result.

mod modes;
mod refused;

use baton_core::event::Event;
use baton_core::id::RunId;
use baton_core::policy::Mode;
use baton_core::run::{Choice, OrchestratorResult, RunStatus};
use baton_engine::{Engine, Orchestrator, Rested, RunHandle, RunRequest, Seen};
use baton_store::RunFilter;
use serde_json::{Value, json};

use crate::everywhere;
use crate::world::{NOW, TENANT, World, insist};

everywhere!(
    a_session_goes_on_and_keeps_to_itself,
    a_question_is_asked_and_answered_by_the_next_message,
    an_approval_is_named_and_no_message_decides_it,
    what_nobody_decided_in_time_holds_nobody_up,
    a_message_waits_for_the_turn_before_it,
    a_message_waits_for_a_turn_that_another_process_drives,
    a_message_outlives_the_process_that_it_waited_for,
    a_session_that_stays_busy_says_so,
    a_failure_is_told_with_what_helps,
    a_cancelled_request_says_so,
    what_the_decision_forbids_is_told_to_the_person,
    a_process_that_goes_down_says_so_and_loses_nothing,
);

fn orchestrator(engine: &Engine) -> Orchestrator {
    Orchestrator::new(engine.clone(), RunRequest::new("", "scripted"))
}

async fn ask(engine: &Engine, text: &str) -> OrchestratorResult {
    orchestrator(engine).handle_user_request("t", text, Mode::Moderate, "CHAT").await
}

/// A result as its reader sees it: run ids by the order of the runs of thread `t`, spans and usage by name.
async fn seen(world: &World, result: OrchestratorResult) -> Value {
    let filter = RunFilter { thread: Some("t".parse().unwrap()), limit: 100, ..RunFilter::default() };
    let mut text = serde_json::to_string(&result).unwrap();
    let runs = insist(|| world.store.runs(&TENANT, &filter)).await;
    for (n, run) in runs.iter().rev().enumerate() {
        text = text.replace(&run.id.to_string(), &format!("RUN{n}"));
        text = text.replace(&run.id.trace_id(), &format!("TRACE{n}"));
        text = text.replace(&run.id.short(), &format!("SHORT{n}"));
    }
    let mut value: Value = serde_json::from_str(&text).unwrap();
    for step in value["steps"].as_array_mut().unwrap() {
        let metadata = step["metadata"].as_object_mut().unwrap();
        if let Some(span) = metadata.get_mut("span_id") {
            assert_eq!(span.as_str().map(str::len), Some(16), "{span}");
            *span = json!("SPAN");
        }
        if let Some(usage) = metadata.get_mut("usage") {
            assert!(usage["prompt_tokens"].is_u64() && usage["completion_tokens"].is_u64(), "{usage}");
            *usage = json!("USED");
        }
    }
    value
}

fn llm(said: &str) -> Value {
    json!({"type": "llm_call", "description": format!("scripted {said}"), "metadata": {
        "span_id": "SPAN", "model_role": "reasoning", "model": "scripted", "usage": "USED",
    }})
}

fn tool(name: &str, n: u32) -> Value {
    json!({"type": "tool_call", "description": format!("{name} worked"), "metadata": {
        "span_id": "SPAN", "tool_name": name, "call_id": format!("TRACE0-{n}"),
    }})
}

fn warning(description: &str, metadata: Value) -> Value {
    json!({"type": "warning", "description": description, "metadata": metadata})
}

fn told(reply: &str, steps: Vec<Value>, run: u32) -> Value {
    json!({"reply": reply, "steps": steps, "trace_id": format!("TRACE{run}")})
}

/// Starts a run on `t` that holds at its first tool, and is held.
async fn held(world: &World, engine: &Engine) -> RunHandle {
    let handle = engine.start(world.request("hold")).await.unwrap();
    world.ledger.arrived(1).await;
    handle
}

fn holds() -> Value {
    json!([
        [{"call": {"name": "safe", "arguments": {"do": "hold"}}}],
        [{"text": "held"}],
        [{"text": "You said {user}"}]
    ])
}

async fn a_session_goes_on_and_keeps_to_itself(world: World) {
    let usage = json!({"usage": {"prompt_tokens": 5, "completion_tokens": 2}});
    world.script(json!([
        [{"call": {"name": "safe", "arguments": {"do": "ok"}}}, usage],
        [{"text": "First {user}"}, usage],
        [{"text": "Then {user}"}, usage]
    ]));
    let engine = world.engine();
    let agent = orchestrator(&engine);
    let other = agent.handle_user_request("other", "elsewhere", Mode::Exploratory, "CODE_TASK");
    let (first, other) = tokio::join!(ask(&engine, "one"), other);
    let steps = vec![llm("asked for safe"), tool("safe", 1), llm("answered")];
    assert_eq!(seen(&world, first).await, told("First one", steps, 0));
    assert_eq!((other.reply.as_str(), other.steps.len()), ("First elsewhere", 3));
    let second = ask(&engine, "two").await;
    assert_eq!(seen(&world, second).await, told("Then two", vec![llm("answered")], 1));

    let session = engine.session(&TENANT, &"t".parse().unwrap(), None).await.unwrap();
    let said: Vec<(Value, String)> =
        session.messages.iter().map(|m| (json!(m.role), m.content.clone())).collect();
    let expected = [
        ("user", "one"),
        ("assistant", ""),
        ("tool", "{\"did\":\"ok\",\"n\":null}"),
        ("assistant", "First one"),
        ("user", "two"),
        ("assistant", "Then two"),
    ];
    assert_eq!(said, expected.map(|(role, text)| (json!(role), text.to_owned())));
    assert_eq!(session.messages[1].tool_calls.len(), 1);
    assert_eq!(
        (session.last_plan, serde_json::to_value(session.metrics).unwrap()),
        (None, json!({"llm_calls": 3, "tools": 1, "tokens": 21, "errors": 0}))
    );
}

async fn a_question_is_asked_and_answered_by_the_next_message(world: World) {
    world.script(json!([
        [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}],
        [{"text": "You said {last_result}"}]
    ]));
    let engine = world.engine();
    let asked = seen(&world, ask(&engine, "paint it").await).await;
    let deadline = NOW.plus_ms(24 * 60 * 60 * 1000);
    let waiting = json!({"kind": "user_input", "run_id": "RUN0", "deadline": deadline});
    let waits = warning("the run waits for an answer", json!({ "waiting": waiting }));
    let steps = vec![llm("asked for ask_user"), waits];
    assert_eq!(asked, told("Which colour?", steps, 0));
    // The answer comes in by another process.
    engine.shutdown().await;
    let answered = seen(&world, ask(&world.engine(), "blue").await).await;
    let mut answer = tool("ask_user", 1);
    answer["metadata"].as_object_mut().unwrap().remove("span_id"); // nothing ran
    let steps = vec![answer, llm("answered")];
    assert_eq!(answered, told("You said blue", steps, 0));
}

fn decides(id: &str) -> String {
    format!("No message decides this; `baton approvals approve {id}` or `baton approvals deny {id}` does.")
}

async fn an_approval_is_named_and_no_message_decides_it(mut world: World) {
    world.decision.approvals = vec!["once".to_owned()];
    let call = json!({"call": {"name": "once", "arguments": {"do": "ok", "n": 1}}});
    world.script(json!([[call], [{"text": "{last_result}"}], [{"text": "You said {user}"}]]));
    let engine = world.engine();
    let asked = seen(&world, ask(&engine, "do it").await).await;
    let reply = format!(
        "May once run with {{\"do\":\"ok\",\"n\":1}}? Rule \"default\" asks before once runs. {}",
        decides("ap-TRACE0-1")
    );
    let deadline = NOW.plus_ms(24 * 60 * 60 * 1000);
    let waiting =
        json!({"kind": "approval", "run_id": "RUN0", "approval_id": "ap-TRACE0-1", "deadline": deadline});
    let waits = warning("the run waits for a decision about once", json!({ "waiting": waiting }));
    assert_eq!(asked, told(&reply, vec![llm("asked for once"), waits.clone()], 0));

    for text in ["yes", "approve it"] {
        let again = seen(&world, ask(&engine, text).await).await;
        assert_eq!(again, told(&reply, vec![waits.clone()], 0));
    }
    assert_eq!(world.ledger.calls(), []);
    let approvals = insist(|| world.store.approvals(&TENANT, None, None, 9)).await;
    engine.decide(&TENANT, &approvals[0].id, Choice::Approve, None, None, None).await.unwrap();
    // It was decided and the run was not resumed: the next message does that, and has its turn after it.
    let next = seen(&world, ask(&engine, "and now?").await).await;
    assert_eq!(next, told("You said and now?", vec![llm("answered")], 1));
    assert_eq!(world.ledger.count("once"), 1);
}

async fn what_nobody_decided_in_time_holds_nobody_up(mut world: World) {
    world.decision.approvals = vec!["once".to_owned()];
    let call = json!({"call": {"name": "once", "arguments": {"do": "ok"}}});
    world.script(json!([[call], [{"text": "so be it"}], [{"text": "You said {user}"}]]));
    let engine = world.engine();
    let asked = ask(&engine, "do it").await;
    assert!(asked.reply.starts_with("May once run"), "{asked:?}");
    world.clock.advance_ms(24 * 60 * 60 * 1000);
    let next = seen(&world, ask(&engine, "hello?").await).await;
    assert_eq!(next, told("You said hello?", vec![llm("answered")], 1));
    assert_eq!(world.ledger.calls(), []);
}

async fn a_message_waits_for_the_turn_before_it(world: World) {
    world.script(holds());
    let engine = world.engine();
    let run = held(&world, &engine).await.run;
    let (next, ()) = tokio::join!(ask(&engine, "next"), async {
        tokio::task::yield_now().await;
        world.ledger.open();
    });
    assert_eq!(seen(&world, next).await, told("You said next", vec![llm("answered")], 1));
    assert_eq!(insist(|| world.store.run(&TENANT, run)).await.status, RunStatus::Ok);
}

async fn a_message_waits_for_a_turn_that_another_process_drives(world: World) {
    world.script(holds());
    let (one, two) = (world.engine(), world.engine());
    let run = held(&world, &one).await.run;
    let (next, ()) = tokio::join!(ask(&two, "next"), async {
        tokio::task::yield_now().await;
        world.ledger.open();
    });
    assert_eq!(seen(&world, next).await, told("You said next", vec![llm("answered")], 1));
    let claims = insist(|| world.store.claims(&TENANT, run)).await;
    assert_eq!(claims.len(), 1, "nobody took it from the process that drove it");
}

async fn a_message_outlives_the_process_that_it_waited_for(world: World) {
    world.script(holds());
    let (one, two) = (world.engine(), world.engine());
    let run = held(&world, &one).await.run;
    let (next, ()) = tokio::join!(ask(&two, "next"), async {
        tokio::task::yield_now().await;
        one.crash().await;
        world.ledger.open();
    });
    assert_eq!(seen(&world, next).await, told("You said next", vec![llm("answered")], 1));
    assert_eq!(insist(|| world.store.run(&TENANT, run)).await.status, RunStatus::Ok);
}

async fn a_session_that_stays_busy_says_so(mut world: World) {
    world.script(holds());
    let one = world.engine();
    world.decision.limits.active_ms = 30;
    let two = world.engine();
    let mut handle = held(&world, &one).await;
    let before = world.transcript().await;
    let reply = "The session is still busy with another request; this one waited 30ms and was not taken. \
                 Send it again later, or end the other one with `baton runs cancel SHORT0`.";
    let step = warning("the session is busy with another request", json!({"reason": "busy"}));
    let busy = json!({"reply": reply, "steps": [step], "trace_id": null});
    assert_eq!(seen(&world, ask(&two, "next").await).await, busy);
    // Requests that come later queue behind those that wait, and no longer than their limit.
    let agent = orchestrator(&two);
    let all = (0..5).map(|_| agent.handle_user_request("t", "next", Mode::Moderate, "CHAT"));
    for result in futures_util::future::join_all(all).await {
        let result = seen(&world, result).await;
        assert_eq!((&result["steps"], &result["trace_id"]), (&busy["steps"], &Value::Null));
    }
    assert_eq!(world.transcript().await, before, "nothing came of it");
    world.ledger.open();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
}

async fn a_failure_is_told_with_what_helps(world: World) {
    let error = json!({"error": {"code": "llm_auth", "message": "the key is not right"}});
    world.script(json!([[{"text": "Once upon"}, error]]));
    let engine = world.engine();
    let failed = seen(&world, ask(&engine, "tell me").await).await;
    let reply = "The key is not right. Check the key and the account; `baton doctor` says where the key is read from.\n\n\
                 What was said until then:\n\nOnce upon";
    let metadata = json!({"span_id": "SPAN", "error": "llm_auth", "model_role": "reasoning", "model": "scripted", "usage": "USED"});
    assert_eq!(failed, told(reply, vec![warning("the key is not right", metadata)], 0));
    let session = engine.session(&TENANT, &"t".parse().unwrap(), None).await.unwrap();
    assert_eq!((session.metrics.llm_calls, session.metrics.errors), (1, 1));
}

async fn a_cancelled_request_says_so(world: World) {
    world.script(json!([[{"text": "Once"}, {"stall": true}]]));
    let engine = world.engine();
    let (result, run) = tokio::join!(ask(&engine, "tell me"), async {
        let run = running(&world).await;
        let mut reader = engine.events(&TENANT, run, Default::default()).await.unwrap();
        while !matches!(reader.next().await.unwrap(), Some(Seen::Event(e)) if matches!(e.event, Event::Delta { .. }))
        {
        }
        engine.cancel(&TENANT, run).await.unwrap();
        run
    });
    assert_eq!(result.trace_id, Some(run.trace_id()));
    let reply = "The request was cancelled.\n\nWhat was said until then:\n\nOnce";
    assert_eq!(seen(&world, result).await, told(reply, vec![], 0));
}

/// The run of thread `t`, as soon as there is one.
async fn running(world: &World) -> RunId {
    let filter = RunFilter { thread: Some("t".parse().unwrap()), limit: 1, ..RunFilter::default() };
    loop {
        if let Some(row) = insist(|| world.store.runs(&TENANT, &filter)).await.pop() {
            return row.id;
        }
        tokio::task::yield_now().await;
    }
}

async fn what_the_decision_forbids_is_told_to_the_person(mut world: World) {
    world.decision.tools = vec!["safe".to_owned()];
    world.decision.denied = [("once".to_owned(), "mode EXPLORATORY".to_owned())].into();
    let call = json!({"call": {"name": "once", "arguments": {"do": "ok"}}});
    world.script(json!([[call], [{"text": "I may not."}]]));
    let engine = world.engine();
    let result = ask(&engine, "do it").await;
    let reply = "I may not.\n\nOnce is not allowed here (rule \"default\"); mode EXPLORATORY would allow it.";
    assert_eq!(result.reply, reply, "{result:?}");
    assert_eq!(world.ledger.calls(), []);
}

async fn a_process_that_goes_down_says_so_and_loses_nothing(world: World) {
    world.script(holds());
    let engine = world.engine();
    let (result, ()) = tokio::join!(ask(&engine, "hold"), async {
        world.ledger.arrived(1).await;
        engine.shutdown().await;
    });
    let step = warning("this process is shutting down", json!({"error": "internal"}));
    let reply = "This process is shutting down. What was committed is safe. `baton runs resume SHORT0` goes on with it.";
    assert_eq!(seen(&world, result).await, told(reply, vec![step], 0));
    let late = json!({"reply": "This process is shutting down. What was committed is safe.",
                      "steps": [warning("this process is shutting down", json!({"error": "internal"}))], "trace_id": null});
    assert_eq!(seen(&world, ask(&engine, "late").await).await, late);
    world.ledger.open();
    let engine = world.engine();
    let next = seen(&world, ask(&engine, "next").await).await;
    assert_eq!(next["reply"], "You said next");
}
