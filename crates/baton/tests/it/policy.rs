//! `baton policy`, and the rows of `baton.toml` through the real binary.

use serde_json::{Value, json};

use crate::tidy::root;
use crate::world::World;

/// The output without the tool that only builds for crash tests have.
fn usual(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("test_"));
    lines.map(|line| format!("{line}\n")).collect()
}

const BUILT_IN: &str = r#"# What each request may do. Any part of this can be pasted into baton.toml and changed there.

[policy.modes.CONSERVATIVE]  # built in
tools = ["@side_effect_free"]
rounds = 2
time_s = 60
answer_tokens = 4096
self_check = "after_tools"
on_unknown = "ask_person"
untrusted_egress = "ask"
patience_s = 86400

[policy.modes.MODERATE]  # built in
tools = ["@side_effect_free", "@configured"]
rounds = 3
time_s = 120
answer_tokens = 4096
self_check = "never"
on_unknown = "tell_model"
untrusted_egress = "ask"
patience_s = 86400

[policy.modes.EXPLORATORY]  # built in
tools = ["*"]
rounds = 8
time_s = 600
answer_tokens = 4096
self_check = "never"
on_unknown = "tell_model"
untrusted_egress = "allow"
patience_s = 86400

[policy.channels.CHAT]  # built in
roles = ["router", "reasoning"]
default_role = "auto"
after_tools = "reasoning"
tool_rule = "auto"
search_first = "web_search"

[policy.channels.CODE_TASK]  # built in
roles = ["coding", "reasoning", "router"]
default_role = "coding"
after_tools = "coding"
tool_rule = "none"

[policy.channels.EXECUTE]  # built in
roles = ["router", "reasoning", "coding"]
default_role = "auto"
after_tools = "reasoning"
tool_rule = "auto"

[policy.channels.SYSTEM_HEALTH]  # built in
roles = ["router", "reasoning"]
default_role = "reasoning"
after_tools = "reasoning"
tools = ["system_health", "system_logs"]
tool_rule = "required"
first_tool = "system_health"
"#;

/// Rows of every kind: a ceiling, a mode, a channel, a cell, and the limits that they raise.
const OWN: &str = r#"
[policy]
approve = ["read_*"]
[limits]
iterations = 6
answer_tokens = 9000
[policy.modes.CONSERVATIVE]
rounds = 4
tools = ["@side_effect_free", "my_*"]
[policy.channels.DESK]
tools = ["clock", "read_file"]
cost_usd = 0.25
[policy.cells.CHAT-CONSERVATIVE]
time_s = 300
"#;

#[test]
fn the_built_in_table_is_shown_whole() {
    let did = World::new().baton(&["policy", "show"]);
    assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (0, BUILT_IN, ""));
}

#[test]
fn what_is_shown_says_what_is_stated_and_what_was_lifted() {
    let world = World::new();
    world.settings(OWN);
    let out = world.baton(&["policy", "show"]).ok();
    let tables: Vec<&str> = out.split("\n\n").collect();
    let of = |head: &str| *tables.iter().find(|table| table.starts_with(head)).unwrap();
    assert_eq!(of("[policy]"), "[policy]\napprove = [\"read_*\"]");
    assert_eq!(of("[limits]"), "[limits]\niterations = 6\nanswer_tokens = 9000");
    let moderate = "\
[policy.modes.MODERATE]
tools = [\"@side_effect_free\", \"@configured\", \"my_*\"]  # built in, lifted to what [policy.modes.CONSERVATIVE] has
rounds = 4  # built in, lifted to what [policy.modes.CONSERVATIVE] has
time_s = 120  # built in
self_check = \"never\"  # built in
on_unknown = \"tell_model\"  # built in
untrusted_egress = \"ask\"  # built in
patience_s = 86400  # built in";
    assert_eq!(of("[policy.modes.MODERATE]"), moderate);
    let desk = "\
[policy.channels.DESK]
roles = [\"router\", \"reasoning\", \"coding\"]  # built in
default_role = \"auto\"  # built in
after_tools = \"reasoning\"  # built in
tools = [\"clock\", \"read_file\"]
tool_rule = \"auto\"  # built in
cost_usd = 0.25";
    assert_eq!(of("[policy.channels.DESK]"), desk);
    let lifted = "[policy.cells.CHAT-MODERATE]\ntime_s = 300  # built in, lifted to what [policy.cells.CHAT-CONSERVATIVE] has";
    assert_eq!(of("[policy.cells.CHAT-MODERATE]").trim_end(), lifted);
    let rows = world.baton(&["policy", "show", "--json"]).json();
    let row =
        rows["rows"].as_array().unwrap().iter().find(|row| row["row"] == "[policy.channels.DESK]").unwrap();
    assert_eq!((&row["stated"], &row["lifted"]), (&json!(["tools", "cost_usd"]), &json!([])));
    assert_eq!(row["values"]["cost_usd"], 0.25);
}

/// The values of every row, without their origins.
fn values(world: &World) -> Vec<(Value, Value)> {
    let rows = world.baton(&["policy", "show", "--json"]).json();
    let rows = rows["rows"].as_array().unwrap().clone();
    rows.into_iter().map(|row| (row["row"].clone(), row["values"].clone())).collect()
}

#[test]
fn what_is_shown_can_be_pasted_and_is_the_same_table() {
    for settings in ["", OWN] {
        let (world, pasted) = (World::new(), World::new());
        world.settings(settings);
        pasted.settings(&world.baton(&["policy", "show"]).ok());
        assert_eq!(values(&pasted), values(&world));
        let out = pasted.baton(&["policy", "show"]).ok();
        assert!(!out.contains("built in"), "{out}");
    }
}

#[test]
fn a_decision_is_explained_row_by_row() {
    let world = World::new();
    world.settings(&format!("{OWN}\n[policy.modes.EXPLORATORY]\napprove = [\"fetch_url\"]\n"));
    let did = world.baton(&["policy", "explain", "--channel", "DESK", "What is the capital of France?"]);
    let expected = "\
rule    DESK/MODERATE
role    router: a short question for a fact

SETTING           VALUE                                 FROM
roles             router, reasoning, coding             [policy.channels.DESK] (built in)
default_role      by the question                       [policy.channels.DESK] (built in)
after_tools       reasoning                             [policy.channels.DESK] (built in)
tools             @side_effect_free, @configured, my_*  [policy.modes.MODERATE] (built in); lifted to what [policy.modes.CONSERVATIVE] has; of these only clock, read_file, by [policy.channels.DESK]
tool_rule         auto: whoever is asked may call them  [policy.channels.DESK] (built in)
first_tool        none
search_first      none
approve           read_*, fetch_url                     [policy], [policy.modes.EXPLORATORY]
rounds            4                                     [policy.modes.MODERATE] (built in); lifted to what [policy.modes.CONSERVATIVE] has
time_s            120 s                                 [policy.modes.MODERATE] (built in)
tokens            no limit
answer_tokens     9000                                  [limits]
tool_calls        no limit
cost_usd          0.25 US dollars                       [policy.channels.DESK]
temperature       what the models have
self_check        never                                 [policy.modes.MODERATE] (built in)
on_unknown        the model is told                     [policy.modes.MODERATE] (built in)
untrusted_egress  a person is asked                     [policy.modes.MODERATE] (built in)
patience_s        86400 s                               [policy.modes.MODERATE] (built in)

TOOL           CALLS          WHY
ask_user       allowed        offered wherever tools are
calculator     not allowed    needs `calculator` in `tools` of [policy.channels.DESK]
clock          allowed        [policy.modes.MODERATE]
fetch_url      not allowed    needs `fetch_url` in `tools` of [policy.channels.DESK]
list_files     not allowed    needs `list_files` in `tools` of [policy.channels.DESK]
read_blob      not allowed    needs `read_blob` in `tools` of [policy.channels.DESK]
read_file      need approval  by `approve` of [policy]
search_blob    not allowed    needs `search_blob` in `tools` of [policy.channels.DESK]
search_files   not allowed    needs `search_files` in `tools` of [policy.channels.DESK]
system_health  not allowed    needs `system_health` in `tools` of [policy.channels.DESK]
system_logs    not allowed    needs `system_logs` in `tools` of [policy.channels.DESK]
update_plan    not allowed    needs `update_plan` in `tools` of [policy.channels.DESK]
";
    assert_eq!((did.code, usual(&did.out), did.err.as_str()), (0, expected.to_owned(), ""));
}

#[test]
fn a_ceiling_that_is_reached_is_told() {
    let world = World::new();
    world.settings(OWN);
    let args = ["policy", "explain", "--json", "--mode", "exploratory", "hello"];
    let explained = world.baton(&args).json();
    let expected = json!({
        "name": "rounds", "value": "6", "rows": [{"row": "[limits]", "stated": true}],
        "note": "capped: [policy.modes.EXPLORATORY] has 8",
    });
    assert_eq!(explained["settings"][8], expected);
    assert_eq!(explained["decision"]["rule"], "CHAT/EXPLORATORY");
    assert_eq!(explained["role"], json!({"role": "router", "reason": "a few words"}));
}

#[test]
fn health_and_code_are_explained_by_their_channels() {
    let world = World::new();
    let head = |channel: &str| {
        let out = world.baton(&["policy", "explain", "--channel", channel, "Sort a list"]).ok();
        out.split("\n\n").next().unwrap().to_owned()
    };
    assert_eq!(head("CODE_TASK"), "rule    CODE_TASK/MODERATE\nrole    coding: the channel's role");
    let health = "rule    SYSTEM_HEALTH/MODERATE\nchoice  router: the channel requires a tool\nrole    reasoning: the channel's role";
    assert_eq!(head("SYSTEM_HEALTH"), health);
}

#[test]
fn a_channel_that_is_not_there_is_wrong_use() {
    let world = World::new();
    world.settings("[policy.channels.DESK]\n");
    let expected = "error: there is no channel \"dsek\"; did you mean `DESK`?\n  \
                    there are CHAT, CODE_TASK, DESK, EXECUTE, SYSTEM_HEALTH; [policy.channels.NAME] in baton.toml adds one\n";
    for args in [
        &["ask", "--channel", "dsek", "hi"][..],
        &["chat", "--channel", "dsek"],
        &["policy", "explain", "--channel", "dsek", "hi"],
    ] {
        let did = world.baton(args);
        assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (2, "", expected), "{args:?}");
    }
}

#[test]
fn a_channel_is_meant_in_whatever_case() {
    let world = World::new();
    world.settings("[policy.channels.DESK]\n");
    let out = world.baton(&["policy", "explain", "--channel", "Desk", "hello"]).ok();
    assert!(out.starts_with("rule    DESK/MODERATE\n"), "{out}");
    let done = world.baton(&["ask", "--channel", "code_task", "--json", "--steps", "hello"]).ok();
    let result: Value = serde_json::from_str(done.lines().last().unwrap()).unwrap();
    let step = &result["steps"][0]["metadata"];
    assert_eq!((&step["model_role"], &step["reason"]), (&json!("coding"), &json!("the channel's role")));
}

#[test]
fn a_table_that_contradicts_itself_is_refused_with_its_line() {
    let world = World::new();
    world.settings("model = \"offline\"\n[policy.modes.MODERATE]\nrounds = 1\n");
    let file = world.path("home/config/baton/baton.toml");
    let why = "`rounds` of MODERATE on CHAT would be stricter than that of CONSERVATIVE";
    let hint = "let it be as strict for CONSERVATIVE in [policy.modes.CONSERVATIVE], or as loose here";
    let expected = format!("error: {}:3: {why}\n  {hint}\n", file.display());
    for args in [&["ask", "hi"][..], &["policy", "show"], &["config", "show"], &["policy", "explain", "hi"]] {
        let did = world.baton(args);
        assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (2, "", expected.as_str()), "{args:?}");
    }
    let checks = world.baton(&["doctor", "--json"]).json();
    let told = checks["checks"].as_array().unwrap().iter().find(|check| check["state"] == "failed").unwrap();
    assert!(told["detail"].as_str().unwrap().ends_with(why) && told["fix"] == hint, "{told}");
}

#[test]
fn the_doctor_doubts_a_pattern_that_fits_no_tool() {
    let world = World::new();
    world.settings(
        "[policy.channels.CHAT]\ntools = [\"clok\", \"@configured\", \"read_*\"]\nsearch_first = \"\"\n",
    );
    let checks = world.baton(&["doctor", "--json"]).json();
    let file = world.path("home/config/baton/baton.toml").display().to_string();
    let told: Vec<&Value> =
        checks["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "settings").collect();
    let detail =
        format!("`policy.channels.CHAT.tools` (file {file}:2): \"clok\" fits no tool; did you mean `clock`?");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (told[0]["detail"].as_str(), told[0]["state"].as_str()),
        (Some(detail.as_str()), Some("warning"))
    );
}

#[test]
fn the_doctor_doubts_a_tool_that_is_to_run_and_is_never_allowed() {
    let world = World::new();
    let required = "tool_rule = \"required\"\nfirst_tool = \"clock\"\ntools = [\"calculator\"]\n";
    world.settings(&format!("[policy.channels.CHAT]\n{required}"));
    let checks = world.baton(&["doctor", "--json"]).json();
    let told: Vec<&Value> =
        checks["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "settings").collect();
    let expected = json!({
        "name": "settings", "state": "warning",
        "detail": "`first_tool` of [policy.channels.CHAT] is \"clock\", which is never allowed there",
        "fix": "it needs `clock` in `tools` of [policy.channels.CHAT]",
    });
    assert_eq!(told, [&expected]);
}

#[test]
fn every_table_on_the_page_about_the_policy_can_be_read() {
    let page = std::fs::read_to_string(root().join("docs/policy.md")).unwrap();
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 6);
    for block in blocks {
        let world = World::new();
        world.settings(block);
        let did = world.baton(&["policy", "show"]);
        assert_eq!((did.code, did.err.as_str()), (0, ""), "{block}");
    }
}
