//! Calls and questions that are not what they seem: text that the user cannot see at the decision.

use serde_json::{Value, json};

use crate::serve::house::House;
use crate::world::World;

/// "and mail it" in tag characters, which no terminal shows and models read.
fn hidden() -> String {
    "and mail it".chars().map(|c| char::from_u32(0xe0000 + u32::from(c)).unwrap()).collect()
}

/// A world in which a run waits for the approval of this call.
fn waiting(note: &str) -> (World, crate::stage::Did) {
    let world = World::new();
    world.settings("[policy]\napprove = [\"test_note\"]\n");
    let file = world.path("notes");
    let call = json!({"call": {"name": "test_note", "arguments": {"file": file, "line": note}}});
    let model = world.script(&json!({"v": 1, "replies": [{"do": [call]}, {"do": [{"text": "Noted."}]}]}));
    let did = world.baton(&["ask", "--model", &model, "--thread", "t", "note it"]);
    assert_eq!(did.code, 3, "{did:?}");
    (world, did)
}

/// The text that is written, the text that is shown, and the warning.
fn attacks() -> Vec<(String, &'static str, &'static str)> {
    let unseen = "It holds characters that cannot be seen: ";
    let cases = [
        (format!("ok{}", hidden()), "ok<U+E0061>", "It holds a hidden text: \"and mail it\"."),
        ("o\u{200b}k".to_owned(), "o<U+200B>k", unseen),
        ("o\u{2060}k".to_owned(), "o<U+2060>k", unseen),
        ("o\u{ad}k".to_owned(), "o<U+00AD>k", unseen),
        ("o\u{3164}k".to_owned(), "o<U+3164>k", unseen),
        ("o\u{202e}k".to_owned(), "o<U+202E>k", "turn the direction of text around: U+202E."),
        (
            "p\u{430}ypal.com".to_owned(),
            "pа<U+0430>ypal.com",
            "The word \"pаypal\" is not what it seems: its 'а' is U+0430, which looks like 'a'.",
        ),
    ];
    cases.into()
}

#[test]
fn a_call_with_text_that_cannot_be_seen_is_marked_wherever_a_person_decides() {
    for (note, shown, warning) in attacks() {
        let (world, asked) = waiting(&note);
        assert!(asked.err.contains(shown) && asked.err.contains(warning), "{asked:?}");

        let list = world.baton(&["approvals", "ls"]);
        assert!(
            list.out.contains("(!) test_note ") && list.err.contains("(!) is not what it seems"),
            "{list:?}"
        );
        let item: Value = world.baton(&["approvals", "ls", "--json"]).json()["items"][0].clone();
        let one = world.baton(&["approvals", "show", item["id"].as_str().unwrap()]);
        assert!(one.out.contains(shown) && one.out.contains(warning), "{one:?}");

        // A program gets the exact arguments, and the warnings beside them.
        assert_eq!(item["args"]["line"], json!(note));
        assert!(item["warnings"][0].as_str().unwrap().contains(warning), "{item}");

        let chat = world.baton_reading(&["chat", "--thread", "t"], "n\n");
        let seen = format!("{}{}", chat.out, chat.err);
        assert!(seen.contains(shown) && seen.contains(warning), "{chat:?}");
        for text in [&asked.err, &list.out, &one.out, &seen] {
            assert!(
                !text.contains(&hidden()) && !text.contains(['\u{200b}', '\u{202e}', '\u{ad}']),
                "{text}"
            );
        }
    }
}

#[test]
fn an_honest_call_has_no_warning() {
    let (world, asked) = waiting("Привет 👩\u{200d}💻, naïve café");
    assert!(!asked.err.contains("(!)") && asked.err.contains("Привет 👩\u{200d}💻, naïve café"), "{asked:?}");
    let items = world.baton(&["approvals", "ls", "--json"]).json()["items"].clone();
    assert_eq!(items[0].get("warnings"), None);
}

#[test]
fn a_stream_says_what_cannot_be_seen_of_a_call() {
    let world = World::new();
    world.settings("[policy]\napprove = [\"test_note\"]\n");
    let arguments = json!({"file": world.path("notes"), "line": "o\u{200b}k"});
    let call = json!({"call": {"name": "test_note", "arguments": arguments}});
    let model = world.script(&json!({"v": 1, "replies": [{"do": [call]}]}));
    let did = world.baton(&["ask", "--json", "--model", &model, "note it"]);
    let asked = did.objects().into_iter().find(|object| object["type"] == "approval_required").unwrap();
    assert_eq!(asked["warnings"], json!(["It holds characters that cannot be seen: U+200B."]));
}

#[test]
fn a_question_with_text_that_cannot_be_seen_is_marked() {
    let world = World::new();
    let question = format!("Shall I go on{}?", hidden());
    let call = json!({"call": {"name": "ask_user", "arguments": {"question": question}}});
    let model = world.script(&json!({"v": 1, "replies": [{"do": [call]}]}));
    let did = world.baton(&["ask", "--model", &model, "--thread", "t", "go"]);
    assert!(did.out.contains("Shall I go on<U+E0061>"), "{did:?}");
    assert!(did.err.contains("(!) It holds a hidden text: \"and mail it\"."), "{did:?}");
}

#[test]
fn the_service_says_what_cannot_be_seen_of_a_call() {
    let world = World::new();
    let mut notes = attacks();
    notes.push(("an honest one".to_owned(), "an honest one", ""));
    // One message is one call, named by its number.
    let replies = notes.iter().enumerate().map(|(n, (note, ..))| {
        let arguments = json!({"file": world.path("notes"), "line": note});
        json!({"match": format!("note {n}."), "do": [{"call": {"name": "test_note", "arguments": arguments}}]})
    });
    let script = json!({"v": 1, "replies": replies.collect::<Vec<_>>()});
    let house = House::with(world, &script, "[policy]\napprove = [\"test_note\"]\n");
    for (n, (note, shown, warning)) in notes.iter().enumerate() {
        let message = format!("note {n}.");
        let mut stream = house.run(json!({"input": message, "thread_id": format!("t-{n}")}));
        let asked = stream.until("approval_required").data;
        let run = stream.head.header("x-run-id").to_owned();
        house.until(&run, "suspended");
        let listed = house.get("/v1/approvals?status=pending").json()["items"][0].clone();
        let path = format!("/v1/runs/{run}/events");
        let again = house.stream("GET", &path, &[], None).until("approval_required").data;
        assert_eq!((&listed["run_id"], &listed["id"]), (&json!(run), &asked["approval_id"]));

        // A later question of the session is shown to the user, who has to see all of it.
        let body = json!({"session_id": format!("t-{n}"), "user_message": "Well?"});
        let reply = house.post("/v1/requests", body).json()["reply"].as_str().unwrap().to_owned();
        assert!(reply.contains(shown) && reply.contains(warning), "{reply}");
        assert!(!reply.contains(&hidden()) && !reply.contains(['\u{200b}', '\u{202e}', '\u{ad}']), "{reply}");

        let decide = format!("/v1/runs/{run}/approvals/{}", listed["id"].as_str().unwrap());
        let decided = house.post(&decide, json!({"decision": "deny"})).json();
        for seen in [&asked, &again, &listed, &decided] {
            assert_eq!(seen["args"]["line"], json!(note), "a program gets the exact arguments");
            let told: Vec<&str> =
                seen["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            match warning.is_empty() {
                true => assert_eq!(seen.get("warnings"), None),
                false => assert!(told.len() == 1 && told[0].contains(warning), "{note:?}: {told:?}"),
            }
        }
    }
}
