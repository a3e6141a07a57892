//! `baton ask`: the answer on standard output, everything else beside it, and the exit codes.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::mask::Mask;
use crate::pty::Terminal;
use crate::world::World;

/// A script that looks something up and then answers.
fn looks_up() -> Value {
    json!({"v": 1, "replies": [
        {"do": [{"text": "Let me see. "}, {"call": {"name": "calculator", "arguments": {"expression": "6*7"}}}]},
        {"do": [{"text": "It is\n**42**."}]},
    ]})
}

/// A script that asks the user.
fn asks() -> Value {
    json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}]},
        {"do": [{"text": "You like {last_result}."}]},
    ]})
}

fn stalls() -> Value {
    json!({"v": 1, "replies": [
        {"do": [{"text": "First "}, {"call": {"name": "calculator", "arguments": {"expression": "1"}}}]},
        {"do": [{"text": "then "}, {"stall": true}]},
    ]})
}

#[test]
fn the_first_command_answers_with_real_numbers() {
    let did = World::new().baton(&["ask", "How is this machine doing?"]);
    assert_eq!(did.code, 0, "{did:?}");
    assert!(did.out.contains("**Memory**: ") && did.out.contains("cores"), "{}", did.out);
    assert!(did.out.contains("**Disk ") && did.out.starts_with("**"), "disks, and a headline: {}", did.out);
    let mut told = did.err.lines();
    let first = told.next().unwrap();
    assert!(first.starts_with("offline · nothing but page visits leaves this machine · thread "), "{first}");
    assert!(first.chars().count() <= 100, "{first}");
    let why = "nothing is configured, and no Ollama here has llama3.2:3b; baton doctor says what helps";
    assert_eq!(told.next(), Some(why));
    assert!(did.err.contains("→ system_health {}"), "{}", did.err);
}

#[test]
fn a_pipe_gets_the_exact_text() {
    let world = World::new();
    let did = world.baton(&["ask", "--thread", "t", "--model", &world.script(&looks_up()), "hi"]);
    assert_eq!((did.code, did.out.as_str()), (0, "Let me see. \nIt is\n**42**.\n"));
    let mut notes = did.err.lines().skip(1);
    assert_eq!(notes.next(), Some("→ calculator {\"expression\":\"6*7\"}"));
    assert_eq!(notes.next(), Some("← calculator: {\"exact\":true,\"result\":\"42\"}"));
    assert_eq!(notes.next(), None);
}

#[test]
fn json_is_one_object_a_line_and_done_comes_last() {
    let world = World::new();
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "calculator", "arguments": {"expression": "6*7"}}}, {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}]},
        {"do": [{"text": "It is"}, {"usage": {"prompt_tokens": 4, "completion_tokens": 1}}]},
    ]});
    let did = world.baton(&["ask", "--json", "--model", &world.script(&script), "hi"]);
    assert_eq!((did.code, did.err.as_str()), (0, ""), "{did:?}");
    let expected = [
        json!({"type": "tool_start", "name": "calculator", "args": {"expression": "6*7"}, "call_id": "ID1-1", "seq": 2, "run_id": "ID1"}),
        json!({"type": "tool_result", "name": "calculator", "result": "{\"exact\":true,\"result\":\"42\"}", "call_id": "ID1-1",
               "is_error": false, "seq": 3, "run_id": "ID1"}),
        json!({"type": "thinking", "content": "It ", "message_id": "ID1-2", "seq": 4, "run_id": "ID1"}),
        json!({"type": "thinking", "content": "is", "message_id": "ID1-2", "seq": 5, "run_id": "ID1"}),
        json!({"type": "done", "status": "ok", "response": "It is", "usage": {"tokens": 10, "prompt_tokens": 7, "completion_tokens": 3, "cost_usd": null},
               "seq": 6, "run_id": "ID1"}),
    ];
    assert_eq!(did.objects(), expected);
}

#[test]
fn a_result_follows_the_last_event() {
    let world = World::new();
    let did = world.baton(&["ask", "--json", "--steps", "--model", &world.script(&looks_up()), "hi"]);
    let mut objects = did.objects();
    let mut result = objects.pop().unwrap();
    let steps = result["steps"].take();
    assert_eq!(result, json!({"reply": "It is\n**42**.", "steps": null, "trace_id": "ID1"}));
    let kinds: Vec<&Value> = steps.as_array().unwrap().iter().map(|step| &step["type"]).collect();
    assert_eq!(kinds, ["llm_call", "tool_call", "llm_call"]);
    assert_eq!(objects.last().unwrap()["type"], "done");
    assert!(objects.iter().all(|object| object.get("steps").is_none() && object.get("reply").is_none()));
    let told = world.baton(&["ask", "--steps", "--model", &world.script(&looks_up()), "hi"]).err;
    assert!(told.contains("  tool_call  calculator worked\n"), "{told}");
}

#[test]
fn a_message_can_come_from_a_pipe() {
    let world = World::new();
    let script = world.script(&json!({"v": 1, "replies": [{"do": [{"text": "<{user}>"}]}]}));
    let did = world.baton_reading(&["ask", "-", "--model", &script], "two\nlines\n");
    assert_eq!((did.code, did.out.as_str()), (0, "<two\nlines\n>\n"));
    let empty = world.baton_reading(&["ask", "-", "--model", &script], " \n");
    assert_eq!((empty.code, empty.err.lines().next()), (2, Some("error: there is no message")));
}

#[test]
fn a_message_may_be_several_words_or_come_from_a_pipe_that_nobody_named() {
    let world = World::new();
    let script = world.script(&json!({"v": 1, "replies": [{"do": [{"text": "<{user}>"}]}]}));
    let words = world.baton(&["ask", "--model", &script, "hello", "big", "world", "--thread", "t"]);
    assert_eq!((words.code, words.out.as_str()), (0, "<hello big world>\n"), "{words:?}");
    let piped = world.baton_reading(&["ask", "--model", &script], "from a pipe");
    assert_eq!((piped.code, piped.out.as_str()), (0, "<from a pipe>\n"), "{piped:?}");
    // Piped input is not read where the message is given.
    let both = world.baton_reading(&["ask", "--model", &script, "a", "-"], "from a pipe");
    assert_eq!((both.code, both.out.as_str()), (0, "<a ->\n"), "{both:?}");
    let nothing = world.baton(&["ask", "--model", &script]);
    let told = "error: there is no message\n  baton ask \"How is this machine doing?\"\n";
    assert_eq!((nothing.code, nothing.err.as_str()), (2, told));
    // A user does not wait before a silent terminal.
    let (code, seen) = Terminal::start(world.command(&["ask", "--model", &script])).end();
    assert_eq!(code, 2, "{seen}");
    assert!(seen.contains("there is no message"), "{seen}");
}

#[test]
fn a_command_that_is_mistyped_is_named_rightly() {
    let world = World::new();
    for (typed, meant) in [(&["aks", "hi"][..], "ask"), (&["threads", "lss"], "ls"), (&["evre"], "serve")] {
        let did = world.baton(typed);
        assert_eq!(did.code, 2);
        assert!(did.err.contains(&format!("a similar subcommand exists: '{meant}'")), "{did:?}");
    }
    assert!(!world.baton(&["xyzzy"]).err.contains("similar"));
}

#[test]
fn a_question_suspends_and_the_next_message_answers_it() {
    let world = World::new();
    let script = world.script(&asks());
    let ask = |text: &str| world.baton(&["ask", "--thread", "t", "--model", &script, text]);
    let did = ask("hi");
    assert_eq!((did.code, did.out.as_str()), (3, "Which colour?\n"));
    let told = Mask::default().text(did.err.lines().last().unwrap());
    assert_eq!(told, "answer until TIME with: baton ask --thread t \"…\"");
    let did = ask("blue");
    assert_eq!((did.code, did.out.as_str()), (0, "You like blue.\n"), "{did:?}");
}

#[test]
fn an_approval_suspends_and_names_the_commands_that_decide() {
    let world = World::new();
    world.settings("[policy]\napprove = [\"calc*\"]\n");
    let did = world.baton(&["ask", "--thread", "t", "--model", &world.script(&looks_up()), "hi"]);
    assert_eq!((did.code, did.out.as_str()), (3, "Let me see. \n"));
    let told = Mask::default().text(&did.err.lines().skip(1).collect::<Vec<_>>().join("\n"));
    let expected = "? calculator waits for approval\n\
                    May calculator run? {\"expression\":\"6*7\"}\n  \
                    rule \"CHAT/MODERATE\" asks before calculator runs (until TIME)\n  \
                    baton approvals approve ap-ID1-1\n  \
                    baton approvals deny ap-ID1-1";
    assert_eq!(told, expected);
    let objects = world.baton(&["ask", "--json", "--model", &world.script(&looks_up()), "hi"]).objects();
    let last = objects.last().unwrap();
    let said = json!({"type": last["type"], "status": last["status"], "response": last["response"]});
    assert_eq!(said, json!({"type": "done", "status": "suspended", "response": ""}));
    assert_eq!(objects[objects.len() - 2]["type"], "approval_required");
}

#[test]
fn ctrl_c_cancels_the_run_and_prints_the_receipt() {
    let world = World::new();
    let mut running = world.start(&["ask", "--model", &world.script(&stalls()), "hi"]);
    running.until("then ");
    running.signal(Signal::INT);
    let did = running.end();
    assert_eq!((did.code, did.out.as_str()), (130, "First \nthen \n"));
    assert!(did.err.ends_with("cancelled; finished: calculator\n"), "{}", did.err);
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let world = World::new();
    world.settings("[engine]\ngrace_s = 3600\n");
    let (file, delay) = (world.path("effects"), 3_600_000);
    let arguments =
        json!({"file": file, "line": "x", "class": "unsafe", "delay_ms": delay, "ignore_cancel": true});
    let script =
        json!({"v": 1, "replies": [{"do": [{"call": {"name": "test_effect", "arguments": arguments}}]}]});
    let mut running = world.start(&["ask", "--model", &world.script(&script), "hi"]);
    running.until_noted("→ test_effect");
    running.signal(Signal::INT);
    running.until_noted("Ctrl-C again leaves at once");
    running.signal(Signal::INT);
    assert_eq!(running.end().code, 130);
}

#[test]
fn a_thread_is_shortened_only_where_that_cannot_mean_another() {
    let world = World::new();
    let script = world.script(&json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "{user}"}]}}));
    let thread = |args: &[&str]| {
        let did = world.baton(&[&["ask", "--model", &script, "hi"], args].concat());
        did.err.split(" · ").find_map(|part| part.strip_prefix("thread ")).unwrap().to_owned()
    };
    let made = thread(&[]);
    assert_eq!(thread(&["--thread", &made[made.len() - 8..]]), made);
    assert_eq!(thread(&["--thread", "trip-to-rome"]), "trip-to-rome");
    assert_eq!(thread(&["--thread", "trip"]), "trip", "a name is taken as it is");
}

#[test]
fn a_branch_held_by_a_dead_process_says_what_to_do() {
    let world = World::new();
    let args = ["ask", "--thread", "t", "--model", &world.script(&stalls()), "hi"];
    let mut running = world.start(&args);
    running.until("then ");
    let busy = world.baton(&args);
    assert_eq!(busy.code, 1);
    assert!(busy.err.contains("another Baton works on it: baton runs tail "), "{}", busy.err);
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, -1);
    let dead = world.baton(&args);
    assert_eq!(dead.code, 1);
    assert!(
        dead.err.contains("baton runs resume ") && dead.err.contains("baton runs cancel "),
        "{}",
        dead.err
    );
}

#[test]
fn a_failed_run_says_why() {
    let world = World::new();
    let script = json!({"v": 1, "replies": [{"do": [{"error": {"code": "llm_auth", "message": "no key"}}]}]});
    let did = world.baton(&["ask", "--model", &world.script(&script), "hi"]);
    assert_eq!((did.code, did.out.as_str()), (1, ""));
    let told = did.err.lines().last().unwrap();
    assert!(told.starts_with("the run failed (llm_auth): No key. "), "{told}");
    let objects = world.baton(&["ask", "--json", "--model", &world.script(&script), "hi"]).objects();
    let shown: Vec<(&Value, &Value)> =
        objects.iter().map(|object| (&object["type"], &object["seq"])).collect();
    assert_eq!(shown, [(&json!("error"), &json!(2)), (&json!("done"), &json!(2))]);
}

#[test]
fn wrong_use_is_told_before_anything_happens() {
    let world = World::new();
    for args in [
        &["ask"][..],
        &["ask", "--mode", "WILD", "hi"],
        &["ask", "--thread", "a/b", "hi"],
        &["ask", "--model", "gpt", "hi"],
        &["ask", "--model", "scripted/none.json", "hi"],
        &["nonsense"],
    ] {
        let did = world.baton(args);
        assert_eq!((did.code, did.out.as_str()), (2, ""), "{args:?}");
        assert!(did.err.starts_with("error: "), "{}", did.err);
    }
    assert!(
        world
            .baton(&["ask", "--model", "gpt", "hi"])
            .err
            .contains("\"gpt\" is no model's name\n  there are anthropic/MODEL, ")
    );
}

#[test]
fn a_run_that_waits_says_so_in_its_account() {
    let world = World::new();
    let question = json!({"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}});
    let model =
        world.script(&json!({"v": 1, "replies": [{"do": [question]}, {"do": [{"text": "So be it."}]}]}));
    let did = world.baton(&["ask", "--json", "--steps", "--model", &model, "Paint it"]);
    let objects = did.objects();
    let [.., done, result] = &objects[..] else { panic!("{did:?}") };
    let last = result["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (did.code, &done["status"], &done["response"], &result["reply"]),
        (3, &json!("suspended"), &json!("Which colour?"), &json!("Which colour?"))
    );
    assert_eq!(
        (&last["type"], &last["metadata"]["waiting"]["kind"]),
        (&json!("warning"), &json!("user_input"))
    );
    assert_eq!(last["metadata"]["waiting"]["run_id"], done["run_id"]);
}

#[test]
fn a_terminal_shows_text_in_the_moment_it_comes() {
    let world = World::new();
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [{"text": "# A title\n\nThe **sky** is half"}, {"stall": true}]},
    ]}));
    let ask = |args: &[&str], waits_for: &str| {
        let mut terminal =
            Terminal::start(world.command(&[&["ask", "--model", &model, "hi"], args].concat()));
        let seen = terminal.until(waits_for);
        terminal.signal(Signal::INT);
        assert_eq!(terminal.end().0, 130);
        seen.split_once("\r\n").unwrap().1.replace("\r\n", "\n")
    };
    let bold = |text: &str| format!("\u{1b}[1m{text}\u{1b}[0m");
    let styled = format!("{}{}\n\nThe {} is half", bold("A "), bold("title"), bold("sky"));
    assert_eq!(ask(&[], "half"), styled);
    assert_eq!(ask(&["--color", "never"], "half"), "# A title\n\nThe **sky** is half");
}

#[test]
fn a_terminal_says_what_is_waited_for_until_it_comes() {
    let world = World::new();
    let script = json!({"v": 1, "replies": [{"do": [{"stall_ms": 1500}, {"text": "Here."}]}]});
    let mut terminal = Terminal::start(world.command(&["ask", "--model", &world.script(&script), "hi"]));
    terminal.until("waiting for scripted/");
    let (code, seen) = terminal.end();
    let (_, after) = seen.rsplit_once("waiting for scripted/").unwrap();
    let cleared = after.split_once("\u{1b}[2K").map(|(_, rest)| rest.trim_end());
    assert_eq!((code, cleared), (0, Some("Here.")), "{seen:?}");
}

#[test]
fn reasoning_flows_and_ends_before_the_answer() {
    let world = World::new();
    let script = json!({"v": 1, "replies": [{"do": [
        {"reasoning": "Let me "}, {"reasoning": "see.\nWell"}, {"text": "It is"}, {"text": " so."},
    ]}]});
    let model = world.script(&script);
    let ask = ["ask", "--show-reasoning", "--model", &model, "hi"];
    let did = world.baton(&ask);
    let told: Vec<&str> = did.err.lines().skip(1).collect();
    assert_eq!((did.out.as_str(), told), ("It is so.\n", vec!["thinking: Let me see.", "Well"]));
    let (code, seen) = Terminal::start(world.command(&ask)).end();
    let dim = |text: &str| format!("\u{1b}[2m{text}\u{1b}[0m");
    let expected = ["Let ", "me ", "see.\n", "Well"].map(dim).concat() + "\nIt is so.\n";
    assert_eq!((code, seen.replace("\r\n", "\n").split_once('\n').unwrap().1), (0, expected.as_str()));
}

#[test]
fn a_server_that_is_down_is_told_of_once_in_full() {
    let world = World::new();
    world.settings("[providers.ollama]\nbase_url = \"http://127.0.0.1:1\"\n");
    let did = world.baton(&["ask", "--model", "ollama/x", "hi"]);
    let told: Vec<&str> = did.err.lines().skip(1).collect();
    let [first, second, last] = told.as_slice() else { panic!("{told:?}") };
    assert!(
        first.starts_with("warning: cannot connect to http://127.0.0.1:1")
            && first.ends_with("; trying again"),
        "{first}"
    );
    assert_eq!((did.code, *second), (1, "warning: trying again (2)"));
    assert!(last.starts_with("the run failed (llm_connection): "), "{last}");
}
