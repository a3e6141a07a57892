use super::*;
use crate::policy::table::Rows;
use crate::tool::{EffectClass, Trust};

fn tool(name: &str, class: EffectClass, trust: Trust) -> ToolSpec {
    ToolSpec { name: name.to_owned(), class, trust, ..ToolSpec::default() }
}

fn tools() -> Vec<ToolSpec> {
    let free = EffectClass::SideEffectFree;
    let web = |egress| Trust { untrusted_output: true, egress, ..Trust::BUILT_IN };
    vec![
        tool(ASK_USER, free, Trust::BUILT_IN),
        tool("deploy", EffectClass::Unsafe, Trust { approve: true, ..Trust::default() }),
        tool("fetch_url", free, web(Egress::UnlessFound)),
        tool("mail", EffectClass::Unsafe, Trust { egress: Egress::Yes, ..Trust::default() }),
        tool("shred", EffectClass::Unsafe, Trust::BUILT_IN),
        tool("web_search", free, Trust { to_service: true, ..web(Egress::No) }),
    ]
}

fn explained(rows: Rows, mode: Mode, channel: &str, message: &str) -> Explained {
    explain(&Table::new(rows).unwrap(), &Request { mode, channel }, message, &tools()).unwrap()
}

/// Every setting as one line: its name, value, rows and note.
fn settings(explained: &Explained) -> Vec<String> {
    let from = |from: &From| if from.stated { from.row.clone() } else { format!("{}*", from.row) };
    let line = |line: &Line| {
        let rows: Vec<String> = line.rows.iter().map(from).collect();
        let note = line.note.as_ref().map(|note| format!(" | {note}")).unwrap_or_default();
        format!("{}: {} | {}{note}", line.name, line.value, rows.join(" "))
    };
    explained.settings.iter().map(line).collect()
}

fn verdicts(explained: &Explained) -> Vec<(&str, Verdict, &str)> {
    explained.tools.iter().map(|it| (it.name.as_str(), it.verdict, it.why.as_str())).collect()
}

#[test]
fn every_setting_of_the_built_in_table_names_its_row() {
    let explained = explained(Rows::default(), Mode::Moderate, "CHAT", "Look up the height of K2");
    let expected = [
        "roles: router, reasoning | [policy.channels.CHAT]*",
        "default_role: by the question | [policy.channels.CHAT]*",
        "after_tools: reasoning | [policy.channels.CHAT]*",
        "tools: @side_effect_free, @configured | [policy.modes.MODERATE]*",
        "tool_rule: auto: whoever is asked may call them | [policy.channels.CHAT]*",
        "first_tool: none | ",
        "search_first: web_search | [policy.channels.CHAT]*",
        "approve: none | ",
        "rounds: 3 | [policy.modes.MODERATE]*",
        "time_s: 120 s | [policy.modes.MODERATE]*",
        "tokens: no limit | ",
        "answer_tokens: 4096 | [policy.modes.MODERATE]*",
        "tool_calls: no limit | ",
        "cost_usd: no limit | ",
        "temperature: what the models have | ",
        "self_check: never | [policy.modes.MODERATE]*",
        "on_unknown: the model is told | [policy.modes.MODERATE]*",
        "untrusted_egress: a person is asked | [policy.modes.MODERATE]*",
        "patience_s: 86400 s | [policy.modes.MODERATE]*",
    ];
    assert_eq!(settings(&explained), expected);
    assert_eq!(explained.searches_for.as_deref(), Some("the height of K2"));
    let why = Who { role: "reasoning".to_owned(), reason: "an open request".to_owned() };
    assert_eq!((explained.role, explained.chooses), (why, None));
}

#[test]
fn every_tool_says_what_allows_it_or_what_would() {
    let explained = explained(Rows::default(), Mode::Moderate, "CHAT", "");
    let place = "[policy.modes.MODERATE]";
    let fetch = format!(
        "{place}; beside private data a person is asked, and beside untrusted content unless a search found the address"
    );
    let mail = format!("{place}; beside untrusted content or private data a person is asked");
    let search = format!("{place}; beside private data a person is asked");
    let expected = [
        (ASK_USER, Verdict::Allowed, "offered wherever tools are"),
        ("deploy", Verdict::NeedsApproval, "by the tool's own configuration"),
        ("fetch_url", Verdict::Allowed, fetch.as_str()),
        ("mail", Verdict::Allowed, mail.as_str()),
        ("shred", Verdict::NotAllowed, "needs mode EXPLORATORY"),
        ("web_search", Verdict::Allowed, search.as_str()),
    ];
    assert_eq!(verdicts(&explained), expected);
}

#[test]
fn what_the_operator_says_what_was_lifted_and_what_was_capped_is_told() {
    let rows = Rows {
        everywhere: Row {
            tools: Some(vec!["*e*".to_owned()]),
            approve: Some(vec!["mail".to_owned()]),
            time_s: Some(100),
            tokens: Some(5000),
            cost_usd: Some(0.5),
            ..Row::default()
        },
        modes: [(
            Mode::Conservative,
            Row { rounds: Some(5), tools: Some(vec!["shred".to_owned()]), ..Row::default() },
        )]
        .into(),
        channels: [(
            "CHAT".to_owned(),
            Row {
                tokens: Some(9000),
                cost_usd: Some(0.25),
                search_first: Some("gone".to_owned()),
                temperature: Some(0.5),
                ..Row::default()
            },
        )]
        .into(),
        cells: [(
            ("CHAT".to_owned(), Mode::Moderate),
            Row { approve: Some(vec!["web*".to_owned()]), ..Row::default() },
        )]
        .into(),
    };
    let explained = explained(rows, Mode::Moderate, "CHAT", "Look it up");
    let all = settings(&explained);
    let of = |name: &str| all.iter().find(|line| line.starts_with(&format!("{name}: "))).unwrap().as_str();
    assert_eq!(
        of("rounds"),
        "rounds: 5 | [policy.modes.MODERATE]* | lifted to what [policy.modes.CONSERVATIVE] has"
    );
    assert_eq!(of("time_s"), "time_s: 100 s | [limits] | capped: [policy.modes.MODERATE] has 120 s");
    assert_eq!(of("tokens"), "tokens: 5000 | [limits] | capped: [policy.channels.CHAT] has 9000");
    assert_eq!(of("cost_usd"), "cost_usd: 0.25 US dollars | [policy.channels.CHAT]");
    assert_eq!(of("temperature"), "temperature: at most 0.5 | [policy.channels.CHAT]");
    assert_eq!(of("approve"), "approve: mail, web* | [policy] [policy.cells.CHAT-MODERATE]");
    assert_eq!(
        of("tools"),
        "tools: @side_effect_free, @configured, shred | [policy.modes.MODERATE]* | lifted to what [policy.modes.CONSERVATIVE] has; of these only *e*, by [policy]"
    );
    assert_eq!(
        of("search_first"),
        "search_first: none | [policy.channels.CHAT] | gone is not allowed or not there"
    );
    assert_eq!(explained.searches_for, None);
    let of = |name: &str| verdicts(&explained).into_iter().find(|(tool, ..)| *tool == name).unwrap();
    assert_eq!(of("mail"), ("mail", Verdict::NotAllowed, "needs `mail` in `tools` of [policy]"));
    let asked = "by `approve` of [policy.cells.CHAT-MODERATE]";
    assert_eq!(of("web_search"), ("web_search", Verdict::NeedsApproval, asked));
}

#[test]
fn a_channel_that_requires_a_tool_says_who_chooses() {
    let health = tool("system_health", EffectClass::SideEffectFree, Trust::BUILT_IN);
    let request = Request { mode: Mode::Conservative, channel: "SYSTEM_HEALTH" };
    let explained = explain(&Table::built_in(), &request, "How is it?", &[health]).unwrap();
    let who = |role: &str, reason: &str| Who { role: role.to_owned(), reason: reason.to_owned() };
    assert_eq!(explained.chooses, Some(who("router", "the channel requires a tool")));
    assert_eq!(explained.role, who("reasoning", "the channel's role"));
    let without = explain(&Table::built_in(), &request, "How is it?", &[]).unwrap();
    assert_eq!((without.chooses, without.tools), (None, Vec::new()));
}

#[test]
fn a_channel_without_tools_says_so() {
    let explained = explained(Rows::default(), Mode::Exploratory, "CODE_TASK", "");
    let tools = &explained.settings[3];
    assert_eq!((tools.name, tools.note.as_deref()), ("tools", Some("none is used: tool_rule is none")));
    let helps = "needs `tool_rule = \"auto\"` in [policy.channels.CODE_TASK]";
    assert!(
        verdicts(&explained).iter().all(|(_, verdict, why)| (*verdict, *why) == (Verdict::NotAllowed, helps))
    );
}

#[test]
fn a_channel_that_is_not_there_is_no_explanation() {
    let request = Request { mode: Mode::Moderate, channel: "X" };
    let error = explain(&Table::built_in(), &request, "", &[]).unwrap_err();
    assert!(matches!(error, TableError::Channel { .. }), "{error:?}");
}

#[test]
fn it_can_be_written_as_json() {
    let explained = explained(Rows::default(), Mode::Moderate, "CHAT", "hello");
    let json = serde_json::to_value(&explained).unwrap();
    let expected = serde_json::json!({
        "name": "rounds", "value": "3",
        "rows": [{"row": "[policy.modes.MODERATE]", "stated": false}],
    });
    assert_eq!(json["settings"][8], expected);
    assert_eq!(json["role"], serde_json::json!({"role": "router", "reason": "a few words"}));
    let expected =
        serde_json::json!({"name": "shred", "verdict": "not_allowed", "why": "needs mode EXPLORATORY"});
    assert_eq!(json["tools"][4], expected);
}
