use super::*;

/// The words and hosts for these roles where `lab` and `openai` are elsewhere and `ollama` is here.
fn told(roles: &[(&str, &[&str])], keyless: &[&str]) -> (String, Vec<String>) {
    let hosts = [("openai", "api.openai.com"), ("lab", "10.0.0.5")];
    let hosts = hosts.map(|(name, host)| (name.to_owned(), host.to_owned())).into();
    let keyless = keyless.iter().map(|name| (*name).to_owned()).collect();
    let away = Away { hosts, keyless, ..Away::default() };
    let of = |models: &[&str]| models.iter().map(|model| Candidate::of(*model)).collect::<Vec<_>>();
    let roles: Roles = roles.iter().map(|(role, models)| ((*role).to_owned(), of(models))).collect();
    let model = roles.values().flatten().next().unwrap().model.clone();
    let found = Destinations::of(&model, &roles, &away);
    (found.in_words(), found.hosts())
}

fn says(words: &str, hosts: &[&str]) -> (String, Vec<String>) {
    (words.to_owned(), hosts.iter().map(|host| (*host).to_owned()).collect())
}

#[test]
fn who_is_asked_first_is_told_apart_from_who_stands_in() {
    let here: &[(&str, &[&str])] = &[("reasoning", &["ollama/x", "openai/y"])];
    let words = "nothing leaves this machine; if ollama/x fails, text goes to api.openai.com";
    assert_eq!(told(here, &[]), says(words, &["api.openai.com"]));
    let both: &[(&str, &[&str])] = &[("reasoning", &["lab/x", "openai/y", "lab/z"])];
    let words = "text goes to 10.0.0.5; if lab/x fails, text goes to api.openai.com";
    assert_eq!(told(both, &[]), says(words, &["10.0.0.5", "api.openai.com"]));
    let others: &[(&str, &[&str])] =
        &[("coding", &["ollama/x"]), ("own", &["lab/y"]), ("reasoning", &["ollama/x"])];
    let words = "nothing leaves this machine; in other roles, text goes to 10.0.0.5";
    assert_eq!(told(others, &[]), says(words, &["10.0.0.5"]));
}

#[test]
fn who_is_asked_what_is_short_is_asked_first_too() {
    let quick: &[(&str, &[&str])] = &[("reasoning", &["ollama/x"]), ("router", &["lab/y"])];
    assert_eq!(told(quick, &[]), says("text goes to 10.0.0.5", &["10.0.0.5"]));
    assert_eq!(told(quick, &["lab"]), says("nothing leaves this machine", &[]));
    let both: &[(&str, &[&str])] = &[("reasoning", &["lab/x"]), ("router", &["openai/y"])];
    let words = "text goes to 10.0.0.5 and api.openai.com";
    assert_eq!(told(both, &[]), says(words, &["10.0.0.5", "api.openai.com"]));
    let same: &[(&str, &[&str])] = &[("reasoning", &["lab/x"]), ("router", &["lab/y"])];
    assert_eq!(told(same, &[]), says("text goes to 10.0.0.5", &["10.0.0.5"]));
    let further: &[(&str, &[&str])] = &[("reasoning", &["lab/x"]), ("router", &["ollama/y", "openai/z"])];
    let words = "text goes to 10.0.0.5; if one of them fails, text goes to api.openai.com";
    assert_eq!(told(further, &[]), says(words, &["10.0.0.5", "api.openai.com"]));
}

#[test]
fn who_has_no_key_is_nobody() {
    let stands_in: &[(&str, &[&str])] = &[("reasoning", &["ollama/x", "openai/y"])];
    assert_eq!(told(stands_in, &["openai"]), says("nothing leaves this machine", &[]));
    let first: &[(&str, &[&str])] = &[("reasoning", &["openai/y", "lab/x"])];
    assert_eq!(told(first, &["openai"]), says("text goes to 10.0.0.5", &["10.0.0.5"]));
    let alone: &[(&str, &[&str])] = &[("reasoning", &["openai/y"])];
    assert_eq!(told(alone, &["openai"]), says("nothing leaves this machine until it has its key", &[]));
}

#[test]
fn searches_are_told() {
    let away = Away { search: Some("api.tavily.com".to_owned()), ..Away::default() };
    let words = |model: &str, away: &Away| Destinations::of(model, &Roles::new(), away).in_words();
    let here = "nothing but searches leaves this machine; searches go to api.tavily.com";
    assert_eq!(words("offline", &away), here);
    let hosts = [("lab".to_owned(), "10.0.0.5".to_owned())].into();
    let there = "text goes to 10.0.0.5; searches go to api.tavily.com";
    assert_eq!(words("lab/x", &Away { hosts, ..away }), there);
}

#[test]
fn visits_are_told() {
    let away = Away { visits: true, ..Away::default() };
    let words = |model: &str, away: &Away| Destinations::of(model, &Roles::new(), away).in_words();
    assert_eq!(words("offline", &away), "nothing but page visits leaves this machine");
    let hosts = [("lab".to_owned(), "10.0.0.5".to_owned())];
    let there = Away { hosts: hosts.into(), ..away.clone() };
    assert_eq!(words("lab/x", &there), "text goes to 10.0.0.5", "who is told that is not told of nothing");
    let keyless = Away { keyless: ["lab".to_owned()].into(), ..there };
    let until = "nothing but page visits leaves this machine until it has its key";
    assert_eq!(words("lab/x", &keyless), until);
    let collector = Some(EventReceiver { host: "otel.example".to_owned(), content: false });
    let all = Away { search: Some("api.tavily.com".to_owned()), collector, ..away };
    let expected = "nothing but searches, page visits and telemetry leaves this machine; \
                    searches go to api.tavily.com; telemetry goes to otel.example";
    assert_eq!(words("offline", &all), expected);
}

#[test]
fn pages_are_visited_where_the_policy_allows_it() {
    use baton_core::policy::table::{Row, Rows, Table};

    let list = |tools: &[&str]| {
        let tools = Some(tools.iter().map(|name| (*name).to_owned()).collect());
        Policy::Table(
            Table::new(Rows { everywhere: Row { tools, ..Row::default() }, ..Rows::default() }).unwrap(),
        )
    };
    let policies = [Policy::default(), list(&["clock"]), list(&[]), list(&["fetch_*"])];
    assert_eq!(policies.each_ref().map(visits_by), [true, false, false, true]);

    let here = Destinations::default();
    let words = |channel: &str, policy: &Policy| {
        let decision = policy.evaluate(&Request { mode: Mode::Conservative, channel }, &[fetch_url()]);
        here.by(&decision.unwrap()).in_words()
    };
    let [usual, none, ..] = &policies;
    assert_eq!(words("CHAT", usual), "nothing but page visits leaves this machine");
    let nothing = "nothing leaves this machine";
    assert_eq!([words("CHAT", none), words("CODE_TASK", usual), words("SYSTEM_HEALTH", usual)], [nothing; 3]);
}

#[test]
fn the_tool_that_visits_pages_is_as_it_is_taken_to_be() {
    let (egress, limits) = (Default::default(), Default::default());
    let tools = baton_tools::web(baton_tools::Web { search: None, egress, limits }).unwrap();
    let specs: Vec<_> = tools.iter().map(|tool| tool.spec()).collect();
    let found: Vec<_> = specs.iter().map(|it| (it.name.as_str(), it.class, it.trust.built_in)).collect();
    let taken = fetch_url();
    assert_eq!(found, [(taken.name.as_str(), taken.class, taken.trust.built_in)]);
}

#[test]
fn telemetry_is_told() {
    let watcher = |content| Some(EventReceiver { host: "otel.example".to_owned(), content });
    let words = |away: &Away| Destinations::of("offline", &Roles::new(), away).in_words();
    let away = Away { collector: watcher(false), ..Away::default() };
    assert_eq!(words(&away), "nothing but telemetry leaves this machine; telemetry goes to otel.example");
    let away = Away { search: Some("api.tavily.com".to_owned()), collector: watcher(true), ..away };
    let all = "nothing but searches and telemetry leaves this machine; searches go to api.tavily.com; \
               telemetry goes to otel.example, with all that is said";
    assert_eq!(words(&away), all);
}

#[test]
fn the_services_around_are_told() {
    let words = |away: &Away| Destinations::of("offline", &Roles::new(), away).in_words();
    let context = |content| Some(EventReceiver { host: "audit.example".to_owned(), content });
    let away = Away { context: context(false), ..Away::default() };
    assert_eq!(words(&away), "nothing but events leaves this machine; events go to audit.example");
    let away =
        Away { execution: Some("tools.example".to_owned()), context: context(true), visits: true, ..away };
    let all = "nothing but page visits, calls of tools and events leaves this machine; calls of its tools go to \
               tools.example; events go to audit.example, with all that is said";
    assert_eq!(words(&away), all);
}

#[test]
fn few_words_name_one_host_and_count_the_rest() {
    let away = Away {
        hosts: [("openai", "api.openai.com"), ("lab", "10.0.0.5")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into(),
        ..Away::default()
    };
    let brief = |models: &[&str], away: &Away| {
        let roles: Roles =
            [(REASONING.to_owned(), models.iter().map(|model| Candidate::of(*model)).collect())].into();
        Destinations::of(models[0], &roles, away).in_brief()
    };
    assert_eq!(brief(&["ollama/x"], &away), "nothing leaves this machine");
    assert_eq!(
        brief(&["ollama/x"], &Away { visits: true, ..away.clone() }),
        "only page visits leave this machine"
    );
    assert_eq!(brief(&["ollama/x", "lab/y"], &away), "text may go to 10.0.0.5");
    assert_eq!(brief(&["lab/y"], &away), "text goes to 10.0.0.5");
    let all = Away { search: Some("s.example".to_owned()), execution: Some("e.example".to_owned()), ..away };
    assert_eq!(brief(&["lab/y", "openai/x"], &all), "text goes to 10.0.0.5 and 3 more");
    assert_eq!(brief(&["ollama/y"], &all), "text may go to s.example and 1 more");
}
