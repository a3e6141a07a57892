//! Mistakes of a settings file: all of them at once, each with its line, and protection that would protect nothing.

use serde_json::json;

use crate::world::World;

fn talks(world: &World) -> String {
    world.script(&json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "hi"}]}}))
}

#[test]
fn all_mistakes_of_a_file_are_told_at_once_with_their_lines() {
    let world = World::new();
    world.settings(
        "modell = \"offline\"\nlast_n = \"many\"\n\n[engine]\nshutdown_s = -1\n\n[providers.lab]\nbase-url = \"x\"\napi = 7\n\n\
         [policy.channels.CHAT]\nrule = \"auto\"\n",
    );
    let file = world.path("home/config/baton/baton.toml").display().to_string();
    for command in ["ask hello", "config show", "threads ls", "models ls"] {
        let did = world.baton(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(did.code, 2, "{command}: {did:?}");
        assert!(did.err.starts_with("error: the settings have 6 mistakes\n"), "{command}: {}", did.err);
        let lines: Vec<&str> =
            did.err.lines().filter_map(|line| line.trim_start().strip_prefix(&format!("{file}:"))).collect();
        let numbers: Vec<&str> = lines.iter().filter_map(|line| line.split(':').next()).collect();
        assert_eq!(numbers, ["1", "2", "5", "8", "9", "12"], "{}", did.err);
        assert!(
            lines[0].contains("did you mean `model`?") && lines[3].contains("did you mean `base_url`?"),
            "{lines:?}"
        );
    }
}

#[test]
fn what_does_not_go_together_is_told_at_once_too() {
    let world = World::new();
    world.settings("[render]\npolicy = \"last_n\"\n\n[search]\nprovider = \"searxng\"\n");
    let did = world.baton(&["ask", "hello"]);
    assert_eq!(did.code, 2);
    assert!(did.err.starts_with("error: the settings have 2 mistakes\n"), "{}", did.err);
}

#[test]
fn a_name_in_approve_that_no_tool_has_is_refused_and_a_pattern_is_told() {
    let world = World::new();
    world.settings(
        "[policy]\napprove = [\"calculater\", \"clock\"]\n\n\
         [policy.modes.CONSERVATIVE]\napprove = [\"@configured\", \"zzz*\"]\n\n\
         [policy.channels.CHAT]\napprove = [\"read_fiel\"]\n",
    );
    let (script, file) = (talks(&world), world.path("home/config/baton/baton.toml").display().to_string());
    let hint = "baton tools ls shows what there is; a call that is meant to wait would not";
    let told = format!(
        "error: the settings have 2 mistakes\n  \
         {file}:2: `policy.approve`: \"calculater\" fits no tool; did you mean `calculator`?\n    {hint}\n  \
         {file}:8: `policy.channels.CHAT.approve`: \"read_fiel\" fits no tool; did you mean `read_file`?\n    {hint}\n"
    );
    for args in [
        vec!["ask", "--model", &script, "hi"],
        vec!["chat", "--model", &script],
        vec!["policy", "explain", "hi"],
    ] {
        let did = world.baton(&args);
        assert_eq!((did.code, did.err.as_str()), (2, told.as_str()), "{args:?}");
    }
    let serve = world.baton(&["serve", "--port", "0"]);
    assert!(serve.code == 2 && serve.err.contains("\"calculater\" fits no tool"), "{serve:?}");
    world.settings("[policy.modes.CONSERVATIVE]\napprove = [\"@configured\", \"zzz*\", \"clock\"]\n");
    for args in [
        vec!["ask", "--model", &script, "hi"],
        vec!["chat", "--model", &script],
        vec!["policy", "explain", "hi"],
    ] {
        let did = world.baton(&args);
        let note = "policy.modes.CONSERVATIVE.approve: \"zzz*\" fits no tool\n";
        assert_eq!((did.code, did.err.starts_with(note)), (0, true), "{args:?} {did:?}");
        assert_eq!(did.err.matches("fits no tool").count(), 1, "{args:?} {did:?}");
    }
    world.settings("[policy]\ntools = [\"clok\"]\napprove = [\"clock\"]\n");
    let did = world.baton(&["ask", "--model", &script, "hi"]);
    assert!(!did.err.contains("fits no tool"), "what allows too little protects: {did:?}");
}

#[test]
fn a_name_may_be_of_a_tool_that_comes_later() {
    let world = World::new();
    let script = talks(&world);
    // A search that is not configured, and a tool that is switched off, count as existing tools.
    world.settings("[policy]\napprove = [\"web_search\", \"clock\"]\n\n[tools.clock]\nenabled = false\n");
    let did = world.baton(&["ask", "--model", &script, "hi"]);
    assert_eq!(did.code, 0, "{did:?}");
    let nobody = crate::server::Server::nobody();
    world.settings(&format!(
        "[policy]\napprove = [\"calculater\"]\n\n[services.execution]\nurl = \"{nobody}\"\n"
    ));
    let did = world.baton(&["ask", "--model", &script, "hi"]);
    let note = "policy.approve: \"calculater\" fits no tool; did you mean `calculator`?";
    assert_eq!((did.code, did.err.lines().any(|line| line == note)), (0, true), "{did:?}");
}
