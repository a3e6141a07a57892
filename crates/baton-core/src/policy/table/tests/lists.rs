//! Lists of tools: their matches, and how the rows of a table combine.

use super::*;

#[test]
fn a_tool_has_to_be_allowed_everywhere_by_its_channel_and_by_its_mode() {
    let list = |list: &[&str]| Row { tools: Some(names(list)), ..Row::default() };
    let mut rows = everywhere(list(&["s*", "clock"]));
    rows.channels.insert("CHAT".to_owned(), list(&["@built_in"]));
    rows.cells.insert(("CHAT".to_owned(), Mode::Conservative), list(&["system_health"]));
    let table = Table::new(rows).unwrap();
    let of = |mode: Mode| decide(&table, mode, "CHAT");
    assert_eq!(of(Mode::Conservative).tools, names(&["ask_user", "system_health"]));
    let helps = |mode: Mode, tool: &str| of(mode).would_allow(tool).map(str::to_owned);
    assert_eq!(helps(Mode::Conservative, "clock").as_deref(), Some("mode MODERATE"));
    assert_eq!(helps(Mode::Conservative, "deploy").as_deref(), Some("`deploy` in `tools` of [policy]"));
    assert_eq!(of(Mode::Exploratory).tools, names(&["ask_user", "clock", "shred", "system_health"]));

    let all = ["@side_effect_free", "@configured", "nothing"];
    let table = Table::new(cell("CHAT", Mode::Exploratory, list(&all))).unwrap();
    let what_helps = decide(&table, Mode::Exploratory, "CHAT").denied;
    let cell = "`shred` in `tools` of [policy.cells.CHAT-EXPLORATORY]".to_owned();
    assert_eq!(what_helps, [("shred".to_owned(), cell)].into());
    let what_helps = decide(&table, Mode::Moderate, "CODE_TASK").denied;
    let rule = "`tool_rule = \"auto\"` in [policy.channels.CODE_TASK]";
    assert!(what_helps.len() == 5 && what_helps.values().all(|it| it == rule), "{what_helps:?}");
}

fn list(patterns: &[&str]) -> Row {
    Row { tools: Some(names(patterns)), ..Row::default() }
}

fn tools_of(table: &Table, channel: &str) -> [Vec<String>; 3] {
    Mode::ALL.map(|mode| decide(table, mode, channel).tools)
}

#[test]
fn a_list_of_tools_is_the_whole_of_it() {
    let mut rows = mode(Mode::Conservative, list(&["clock"]));
    rows.modes.insert(Mode::Moderate, list(&["cl*", "shred"]));
    rows.cells.insert(("CHAT".to_owned(), Mode::Conservative), list(&[]));
    let table = Table::new(rows).unwrap();
    let (alone, both) = (names(&["ask_user", "clock"]), names(&["ask_user", "clock", "shred"]));
    let all = names(&["ask_user", "clock", "deploy", "shred", "system_health"]);
    assert_eq!(tools_of(&table, "CHAT"), [names(&[]), both.clone(), all.clone()]);
    let rows = Rows { channels: [("OWN".to_owned(), Row::default())].into(), ..table.stated().clone() };
    assert_eq!(tools_of(&Table::new(rows).unwrap(), "OWN"), [alone, both, all]);
}

#[test]
fn a_built_in_list_of_tools_gets_what_a_stricter_mode_has() {
    let table = Table::new(mode(Mode::Conservative, list(&["shred", "@configured"]))).unwrap();
    let whole = names(&["@side_effect_free", "@configured", "shred"]);
    let (conservative, moderate) = (Place::Mode(Mode::Conservative), Place::Mode(Mode::Moderate));
    assert_eq!(table.rows().at(&moderate).unwrap().tools, Some(whole));
    assert_eq!(table.lifted(&moderate, "tools"), Some(&conservative));
    assert_eq!(table.lifted(&Place::Mode(Mode::Exploratory), "tools"), None, "it has everything");
    let all = names(&["ask_user", "clock", "deploy", "shred", "system_health"]);
    assert_eq!(tools_of(&table, "CHAT"), [names(&["ask_user", "deploy", "shred"]), all.clone(), all]);

    let table = Table::new(cell("CHAT", Mode::Conservative, list(&["shred"]))).unwrap();
    let [cell, by] = [Mode::Moderate, Mode::Conservative].map(|mode| Place::Cell("CHAT".to_owned(), mode));
    assert_eq!((table.lifted(&cell, "tools"), table.lifted(&moderate, "tools")), (Some(&by), None));
    assert_eq!(
        tools_of(&table, "CHAT")[1],
        names(&["ask_user", "clock", "deploy", "shred", "system_health"])
    );
}

#[test]
fn a_stated_list_of_tools_that_leaves_out_what_a_stricter_mode_has_is_refused() {
    let leaves_out = |place, channel: &str, looser, stricter, pattern: &str| {
        let (channel, pattern) = (channel.to_owned(), pattern.to_owned());
        Err(TableError::LeavesOut { place, channel, looser, stricter, pattern })
    };
    let (conservative, moderate, exploratory) = (Mode::Conservative, Mode::Moderate, Mode::Exploratory);
    let refused = Table::new(mode(moderate, list(&["clock"])));
    let place = Place::Mode(moderate);
    assert_eq!(refused, leaves_out(place, "CHAT", moderate, conservative, "@side_effect_free"));
    let said = "on CHAT, CONSERVATIVE allows \"@side_effect_free\", which MODERATE would not";
    assert_eq!(refused.unwrap_err().to_string(), said);

    let refused = Table::new(cell("CODE_TASK", exploratory, list(&["@side_effect_free"])));
    let place = Place::Cell("CODE_TASK".to_owned(), exploratory);
    assert_eq!(refused, leaves_out(place, "CODE_TASK", exploratory, moderate, "@configured"));

    // A cell that allows more on one channel is not covered by a looser mode's row for all channels.
    let mut rows = mode(moderate, list(&["@side_effect_free"]));
    rows.cells.insert(("CHAT".to_owned(), conservative), list(&["shred"]));
    let place = Place::Mode(moderate);
    assert_eq!(Table::new(rows), leaves_out(place, "CHAT", moderate, conservative, "shred"));
}

#[test]
fn a_question_alone_is_not_offered() {
    let row = Row { tools: Some(names(&["nothing"])), ..Row::default() };
    let table = Table::new(channel("CHAT", row)).unwrap();
    let decision = decide(&table, Mode::Exploratory, "CHAT");
    assert_eq!(decision.tools, names(&[]));
    assert_eq!(decision.would_allow(ASK_USER), Some("a tool that is allowed on CHAT"));
}
