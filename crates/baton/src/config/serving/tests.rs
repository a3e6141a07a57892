use std::time::Duration;

use super::super::file;
use super::*;
use crate::config::groups;

const FILE: &str = "c/baton.toml";

fn serving(text: &str) -> Result<ModelConfig, (String, String)> {
    let told =
        |failure: Failure| (failure.message.replace("c/baton.toml:", ""), failure.hint.unwrap_or_default());
    let contents = file::parse(std::path::Path::new(FILE), text).map_err(told)?;
    ModelConfig::of(&contents.groups, "http://localhost:11434").map_err(told)
}

fn wrong(text: &str) -> (String, String) {
    serving(text).unwrap_err()
}

fn at(line: usize) -> ValueOrigin {
    ValueOrigin::File(FILE.into(), line)
}

#[test]
fn three_providers_are_there_by_themselves() {
    let provider = |url: &str, api, key| ProviderSetting {
        base_url: Endpoint::parse(url).unwrap(),
        address_from: ValueOrigin::Default,
        api: Some(api),
        key,
        is_configured: false,
    };
    let key = |name: &str| KeyPlace::Variable(name.to_owned());
    let expected = [
        ("anthropic", provider("https://api.anthropic.com", Wire::Anthropic, key("ANTHROPIC_API_KEY"))),
        ("ollama", provider("http://localhost:11434", Wire::Ollama, KeyPlace::None)),
        ("openai", provider("https://api.openai.com/v1", Wire::Responses, key("OPENAI_API_KEY"))),
    ];
    let expected = expected.map(|(name, provider)| (name.to_owned(), provider)).into();
    let nothing = ModelConfig { providers: expected, roles: Roles::new(), models: BTreeMap::new() };
    assert_eq!(serving(""), Ok(nothing));
}

#[test]
fn a_table_changes_what_it_names_and_nothing_else() {
    let text = "[providers.openai]\nkey_env = \"MINE\"\n\
                [providers.ollama]\nbase_url = \"http://10.0.0.9:11434\"\n\
                [providers.lab]\nbase_url = \"http://10.0.0.5:8080/v1\"\napi = \"chat_completions\"\nkey_file = \"lab.key\"\n";
    let serving = serving(text).unwrap();
    let get = |name: &str| serving.providers[name].clone();
    assert_eq!(get("openai").key, KeyPlace::Variable("MINE".to_owned()));
    assert_eq!(get("openai").api, Some(Wire::Responses));
    assert_eq!(get("ollama").address_from, at(4));
    assert_eq!(get("ollama").api, Some(Wire::Ollama));
    let lab = ProviderSetting {
        base_url: Endpoint::parse("http://10.0.0.5:8080/v1").unwrap(),
        address_from: at(6),
        api: Some(Wire::ChatCompletions),
        key: KeyPlace::File(Unshown("c/lab.key".into()), at(8)),
        is_configured: true,
    };
    assert_eq!(get("lab"), lab);
    let moved = serving_of("[providers.openai]\nbase_url = \"http://127.0.0.1:1234/v1\"");
    assert_eq!(moved.providers["openai"].api, Some(Wire::ChatCompletions));
    assert_eq!(moved.providers["openai"].key, KeyPlace::None, "OpenAI's key is not for others");
}

fn serving_of(text: &str) -> ModelConfig {
    serving(text).unwrap()
}

#[test]
fn roles_and_prices_say_who_and_how() {
    let text = "\
[[roles.reasoning]]
model = \"ollama/qwen3:8b\"
temperature = 0.2
max_tokens = 2048
context_window = 32768
max_concurrency = 2
connect_s = 5
first_byte_s = 6
idle_s = 7
total_s = 300
think_tags = true
tool_call_tags = true
[[roles.reasoning]]
model = \"openai/gpt-5-mini\"
api = \"chat_completions\"
[[roles.router]]
model = \"ollama/qwen3:8b\"
max_concurrency = 2
[prices.\"openai/gpt-5-mini\"]
input = 0.25
output = 2
";
    let serving = serving_of(text);
    let big = Candidate {
        model: "ollama/qwen3:8b".to_owned(),
        temperature: Some(0.2),
        max_tokens: Some(2048),
        context_window: Some(32768),
    };
    let reasoning = vec![big, Candidate::of("openai/gpt-5-mini")];
    let router = vec![Candidate::of("ollama/qwen3:8b")];
    let roles: Roles = [("reasoning".to_owned(), reasoning), ("router".to_owned(), router)].into();
    assert_eq!(serving.roles, roles);
    let mut qwen = ModelEntry::new("ollama/qwen3:8b");
    qwen.max_concurrency = Some(2);
    qwen.timeouts.connect = Duration::from_secs(5);
    qwen.timeouts.total = Duration::from_secs(300);
    qwen.timeouts.first_byte = Duration::from_secs(6);
    qwen.timeouts.idle = Duration::from_secs(7);
    qwen.inline_tags = InlineTags { think_tags: true, tool_call_tags: true };
    let mut gpt = ModelEntry::new("openai/gpt-5-mini");
    gpt.api = Some(Wire::ChatCompletions);
    gpt.price = Some(Price { input_usd_per_million: 0.25, output_usd_per_million: 2.0 });
    assert_eq!(serving.models.into_values().collect::<Vec<_>>(), [qwen, gpt]);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_helps() {
    let url =
        "write it like http://127.0.0.1:11434 or https://host/v1; a key is named by key_env or key_file";
    let there = "there are anthropic/MODEL, ollama/MODEL, openai/MODEL, `offline` and `scripted/FILE`; [providers.NAME] in baton.toml adds a provider";
    let provider = "[providers.NAME] takes base_url, api, key_env, key_file";
    let role = "[[roles.NAME]] takes model, temperature, max_tokens, context_window, max_concurrency, connect_s, first_byte_s, idle_s, total_s, api, think_tags, tool_call_tags";
    let price = "write it like [prices.\"openai/gpt-5-mini\"]";
    let table = [
        (
            "[providers.lab]\n",
            "1: `providers.lab`: base_url is missing",
            "add a line like base_url = \"http://10.0.0.5:8080/v1\"",
        ),
        ("[providers.lab]\nbase_url = \"10.0.0.5\"", "2: `providers.lab.base_url`: this is no URL", url),
        (
            "[providers.lab]\nbase_url = \"localhost:80\"",
            "2: `providers.lab.base_url`: only http and https are spoken",
            url,
        ),
        (
            "[providers.lab]\nbase_url = \"http://u:pw@h\"",
            "2: `providers.lab.base_url`: a user or a password does not belong into a URL",
            url,
        ),
        (
            "[providers.lab]\nbase_url = \"http://h/?key=pw\"",
            "2: `providers.lab.base_url`: a base URL has no query and no fragment",
            url,
        ),
        (
            "[providers.lab]\nbase_url = 3",
            "2: `providers.lab.base_url`: expected text, like \"http://10.0.0.5:8080/v1\"",
            "",
        ),
        ("[providers.lab]\nurl = \"http://h\"", "2: there is no setting `providers.lab.url`", provider),
        (
            "[providers.lab]\nkey_env = \"sk-pw\"",
            "2: `providers.lab.key_env`: expected the name of an environment variable, in capital letters, digits and _, like \"LAB_KEY\"",
            "",
        ),
        (
            "[providers.openai]\nkey_env = \"A\"\nkey_file = \"pw\"",
            "3: `providers.openai`: there are a key_env and a key_file",
            "keep one of them",
        ),
        (
            "[providers.\"My Lab\"]\nbase_url = \"http://h\"",
            "1: `providers.\"My Lab\"`: a name is made of small letters, digits, - and _",
            "choose a name like `lab`",
        ),
        (
            "[providers.offline]\nbase_url = \"http://h\"",
            "1: `providers.offline`: this name is taken by a built-in model",
            "choose another name for the provider",
        ),
        (
            "providers = 3",
            "1: `providers`: expected tables",
            "write it like [providers.lab], and below it base_url = \"http://10.0.0.5:8080/v1\"",
        ),
        (
            "[roles.reasoning]\nmodel = \"offline\"",
            "1: `roles.reasoning`: expected a list of tables",
            "write it like [[roles.reasoning]], and below it model = \"ollama/qwen3:8b\"",
        ),
        (
            "[[roles.reasoning]]\ntemperature = 1",
            "2: `roles.reasoning[0]`: model is missing",
            "add a line like model = \"ollama/qwen3:8b\"",
        ),
        (
            "[[roles.x]]\nmodel = \"offline\"\n[[roles.x]]\nmodel = \"lab/big\"",
            "4: `roles.x[1]`: there is no provider \"lab\"",
            there,
        ),
        ("[[roles.x]]\nmodel = \"gpt\"", "2: `roles.x[0]`: \"gpt\" is no model's name", there),
        (
            "[[roles.x]]\nmodel = \"offline\"\ntemprature = 1",
            "3: there is no setting `roles.x[0].temprature`; did you mean `temperature`?",
            role,
        ),
        (
            "[prices.openai.gpt-5]\ninput = 1\noutput = 1",
            "1: there is no setting `prices.openai.gpt-5`; did you mean [prices.\"openai/gpt-5\"]?",
            price,
        ),
        (
            "[prices.openai.gpt-5.1-mini]\ninput = 1\noutput = 1",
            "1: there is no setting `prices.openai.gpt-5`; did you mean [prices.\"openai/gpt-5.1-mini\"]?",
            price,
        ),
        (
            "[prices]\nopenai.gpt-5 = {input = 1}",
            "2: there is no setting `prices.openai.gpt-5`; did you mean [prices.\"openai/gpt-5\"]?",
            price,
        ),
        (
            "[[roles.x]]\nmodel = \"offline\"\nthink_tags = 1",
            "3: `roles.x[0].think_tags`: expected true or false, like true",
            "",
        ),
        (
            "[[roles.x]]\nmodel = \"offline\"\napi = \"grpc\"",
            "3: `roles.x[0].api`: expected one of responses, chat_completions, ollama, anthropic, like \"responses\"",
            "",
        ),
        (
            "[prices.\"lab/x\"]\ninput = 1\noutput = 1",
            "1: `prices.\"lab/x\"`: there is no provider \"lab\"",
            there,
        ),
        (
            "[prices.\"openai/x\"]\ninput = 1",
            "1: `prices.\"openai/x\"`: output is missing",
            "add a line like output = 2.0",
        ),
        (
            "[prices.offline]\ninput = 1\noutput = 1",
            "1: `prices.offline`: built-in models cost nothing",
            "remove this table",
        ),
    ];
    for (text, message, hint) in table {
        assert_eq!(wrong(text), (message.to_owned(), hint.to_owned()), "{text}");
    }
}

#[test]
fn two_roles_must_agree_about_a_model() {
    let roles = |first: &str, second: &str| {
        format!(
            "[[roles.reasoning]]\nmodel = \"ollama/x\"\n{first}\n[[roles.router]]\nmodel = \"ollama/x\"\n{second}\n"
        )
    };
    let facts = [
        ("api = \"ollama\"", "api = \"responses\"", "api"),
        ("max_concurrency = 1", "max_concurrency = 2", "max_concurrency"),
        ("connect_s = 1", "connect_s = 2", "connect_s"),
        ("first_byte_s = 1", "first_byte_s = 2", "first_byte_s"),
        ("idle_s = 1", "idle_s = 2", "idle_s"),
        ("total_s = 1", "total_s = 2", "total_s"),
        ("think_tags = true", "think_tags = false", "think_tags"),
        ("tool_call_tags = true", "tool_call_tags = false", "tool_call_tags"),
    ];
    for (one, other, field) in facts {
        let message = format!("6: `roles.router[0].{field}` is not what file 3 says about the same model");
        assert_eq!(wrong(&roles(one, other)), (message, "say it once, or twice the same".to_owned()));
        assert_eq!(serving(&roles(one, one)).err(), None);
        assert_eq!(serving(&roles(one, "temperature = 1")).err(), None);
    }
    assert_eq!(serving(&roles("temperature = 0", "temperature = 1")).err(), None);
}

#[test]
fn the_environment_moves_ollama() {
    let mut found =
        file::parse(std::path::Path::new(FILE), "[providers.ollama]\nbase_url = \"http://a\"").unwrap();
    let environment = |name: &str| (name == "OLLAMA_BASE_URL").then(|| "http://b:1".into());
    groups::from_environment(&mut found.groups, &environment).unwrap();
    let ollama = &ModelConfig::of(&found.groups, "http://c").unwrap().providers["ollama"];
    assert_eq!(
        (ollama.base_url.to_string(), &ollama.address_from),
        ("http://b:1".to_owned(), &ValueOrigin::Environment("OLLAMA_BASE_URL"))
    );
    let bad = |_: &str| Some("nonsense".into());
    let mut groups = Vec::new();
    groups::from_environment(&mut groups, &bad).unwrap();
    let failure = ModelConfig::of(&groups, "http://c").unwrap_err();
    assert_eq!(failure.message, "OLLAMA_BASE_URL: `providers.ollama.base_url`: this is no URL");
}
