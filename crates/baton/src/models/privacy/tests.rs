use super::*;

/// What is said of these roles where `lab` and `openai` are elsewhere and `ollama` is here.
fn told(roles: &[(&str, &[&str])], keyless: &[&str]) -> (String, Vec<String>) {
    let hosts = [("openai", "api.openai.com"), ("lab", "10.0.0.5")];
    let hosts = hosts.map(|(name, host)| (name.to_owned(), host.to_owned())).into();
    let away = Away { hosts, keyless: keyless.iter().map(|name| (*name).to_owned()).collect() };
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
    let lesser: &[(&str, &[&str])] = &[("reasoning", &["ollama/x"]), ("router", &["lab/y"])];
    let words = "nothing leaves this machine; if ollama/x fails, text goes to 10.0.0.5";
    assert_eq!(told(lesser, &[]), says(words, &["10.0.0.5"]));
    let others: &[(&str, &[&str])] =
        &[("coding", &["ollama/x"]), ("own", &["lab/y"]), ("reasoning", &["ollama/x"])];
    let words = "nothing leaves this machine; in other roles, text goes to 10.0.0.5";
    assert_eq!(told(others, &[]), says(words, &["10.0.0.5"]));
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
