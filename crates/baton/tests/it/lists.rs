//! Lists as text: the message, the model and the cost; on narrow terminals, too. And the question before a deletion.

use serde_json::json;

use crate::pty::Terminal;
use crate::world::World;

/// A machine with one message on the thread `t`.
fn asked() -> World {
    let world = World::new();
    let model = world.script(&json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "Yes."}]}}));
    let said = "Is this a message of some length that a list would cut?";
    assert_eq!(world.baton(&["ask", "--thread", "t", "--model", &model, said]).code, 0);
    assert_eq!(world.baton(&["ask", "--thread", "t", "--model", &model, "Another one"]).code, 0);
    world
}

#[test]
fn lists_say_what_was_asked_and_who_answered_and_what_it_cost() {
    let world = asked();
    let threads = world.baton(&["threads", "ls"]).ok();
    let (head, row) = threads.split_once('\n').unwrap();
    let names: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(names, ["THREAD", "CREATED", "TITLE", "MODEL", "COST", "CURRENT", "BRANCHES", "ENTRIES"]);
    assert!(row.contains("Is this a message of some lengt…  scripted/"), "{row}");
    let runs = world.baton(&["runs", "ls"]).ok();
    let rows: Vec<&str> = runs.lines().collect();
    let names: Vec<&str> = rows[0].split_whitespace().collect();
    assert_eq!(names, ["RUN", "STATUS", "CREATED", "TITLE", "MODEL", "COST", "BRANCH", "THREAD"]);
    assert!(
        rows[1].contains("  Another one  ") && rows[2].contains("  Is this a message of some lengt…  "),
        "{runs}"
    );
}

#[test]
fn lists_fit_a_terminal_of_forty_columns_and_keep_words_whole() {
    let world = asked();
    for command in [&["threads", "ls"][..], &["runs", "ls"], &["tools", "ls"], &["usage"], &["models", "ls"]]
    {
        let (code, seen) = Terminal::start_wide(world.command(command), 40).end();
        assert_eq!(code, 0, "{command:?}: {seen}");
        let listed = seen.lines().filter(|line| !line.contains(" · "));
        let long: Vec<&str> = listed.filter(|line| line.trim_end().chars().count() > 40).collect();
        assert!(long.is_empty(), "{command:?}: {long:?}");
    }
    let (_, seen) = Terminal::start_wide(world.command(&["threads", "ls"]), 40).end();
    assert!(seen.contains("TITLE     Is this a message of some\r\n          lengt…\r\n"), "{seen}");
}

#[test]
fn a_thread_is_deleted_on_a_terminal_only_if_the_person_means_it() {
    let world = asked();
    let remove = |args: &[&str], answer: &str| {
        let mut terminal = Terminal::start(world.command(&[&["threads", "rm", "t"], args].concat()));
        if !answer.is_empty() {
            terminal.until("delete thread t with its 4 entries and its runs? [y/N] ");
            terminal.types(answer);
        }
        terminal.end()
    };
    for no in ["n\r", "\r", "\u{4}"] {
        let (code, seen) = remove(&[], no);
        assert_eq!((code, seen.contains("nothing is deleted")), (0, true), "{no:?}: {seen}");
    }
    let (code, seen) = remove(&[], "y\r");
    assert_eq!((code, seen.contains("thread t is deleted, with its runs")), (0, true), "{seen}");
    assert_eq!(remove(&[], "").0, 1, "it is gone");
    let again = asked();
    let (code, seen) = Terminal::start(again.command(&["threads", "rm", "--yes", "t"])).end();
    assert_eq!((code, seen.contains("delete thread")), (0, false), "{seen}");
    // The command cannot ask where standard input is no terminal.
    assert_eq!(asked().baton(&["threads", "rm", "t"]).ok(), "thread t is deleted, with its runs\n");
}
