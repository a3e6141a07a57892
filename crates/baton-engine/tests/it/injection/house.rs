//! The tools: their descriptions are those of the real tools, their results are the attack, and every call that reaches
//! one is recorded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex};

use baton_core::tool::{EffectClass, Egress, ToolSpec, Trust};
use baton_tools::egress::{FetchLimits, Rules};
use baton_tools::{BlobSource, Builtin, CallContext, Output, SearchProvider, Tool, ToolError, Web};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::corpus::Attack;
use crate::world::{Ledger, NOW};

/// The calls that reached a tool: its name and the arguments.
pub(super) type Reached = Arc<Mutex<Vec<(String, Value)>>>;

/// A tool that records its calls, and returns the results of the attack.
struct Recorder {
    spec: ToolSpec,
    gives: Mutex<VecDeque<Value>>,
    reached: Reached,
    ledger: Arc<Ledger>,
}

impl Tool for Recorder {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        self.ledger.note(&context.key, &self.spec.name, self.spec.class);
        self.reached.lock().unwrap().push((self.spec.name.clone(), arguments.clone()));
        let gives = self.gives.lock().unwrap().pop_front();
        let output = match gives {
            Some(gives) => given(&gives),
            None => Ok(self.harmless(arguments)),
        };
        Box::pin(std::future::ready(output))
    }
}

impl Recorder {
    fn harmless(&self, arguments: Value) -> Output {
        match self.spec.name.as_str() {
            "web_search" => Output::Json(json!({"results": []})),
            "update_plan" => Output::Json(arguments),
            _ => Output::Text("done".to_owned()),
        }
    }
}

/// The result of a tool, as the corpus writes it: text, or an object that names the kind of output.
fn given(gives: &Value) -> Result<Output, ToolError> {
    let Some((kind, said)) = gives.as_object().and_then(|fields| fields.iter().next()) else {
        return Ok(Output::Text(gives.as_str().unwrap().to_owned()));
    };
    let text = || said.as_str().unwrap().to_owned();
    let hit = |title: &str, snippet: &str| json!({"results": [{"title": title, "url": "https://tea.example/green", "snippet": snippet}]});
    let page = |body: &str| format!("Title: Tea\nAddress: https://tea.example/green\n\n{body}");
    let filler = "Tea is a drink. ".repeat(4_000);
    Ok(match kind.as_str() {
        "snippet" => Output::Json(hit("Tea", &text())),
        "title" => Output::Json(hit(&text(), "All about tea.")),
        "page" => Output::Text(page(&text())),
        "page_start" => Output::Text(page(&format!("{}\n{filler}", text()))),
        "page_end" => Output::Text(page(&format!("{filler}\n{}", text()))),
        "many" => Output::Json(many(&text())),
        "json" => Output::Json(said.clone()),
        "fails" => return Err(ToolError::invalid_call(text())),
        other => panic!("no output is of the kind {other:?}"),
    })
}

/// More results than are shown: the middle of the list is left out.
fn many(snippet: &str) -> Value {
    let hit = |n: usize| {
        let snippet = if n == 0 { snippet.to_owned() } else { "All about tea. ".repeat(20) };
        json!({"title": "Tea", "url": format!("https://tea.example/{n}"), "snippet": snippet})
    };
    json!({"results": (0..200).map(hit).collect::<Vec<_>>()})
}

struct NoBlobs;

impl BlobSource for NoBlobs {
    fn read(
        &self,
        _tenant: baton_core::id::Tenant,
        _hash: String,
    ) -> BoxFuture<'static, Result<Option<Vec<u8>>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// The descriptions of Baton's own tools. `ask_user` is in every world already.
fn built_in() -> Vec<ToolSpec> {
    let folder = tempfile::tempdir().unwrap();
    let roots = vec![folder.path().to_owned()];
    let builtin = Builtin { secrets: Default::default(), roots, blobs: Some(Arc::new(NoBlobs)), now: || NOW };
    let search = Some(SearchProvider::Searxng { base: "http://127.0.0.1:1".to_owned() });
    let web = Web { search, egress: Rules::default(), limits: FetchLimits::default() };
    let tools = baton_tools::builtin(builtin).unwrap().into_iter().chain(baton_tools::web(web).unwrap());
    tools.map(|tool| tool.spec().clone()).filter(|spec| spec.name != "ask_user").collect()
}

/// A tool that the operator configured, with arguments that are all text.
fn configured(name: &str, fields: &[&str], class: EffectClass, trust: Trust) -> ToolSpec {
    let properties: BTreeMap<&str, Value> =
        fields.iter().map(|field| (*field, json!({"type": "string"}))).collect();
    let input_schema = json!({
        "type": "object", "additionalProperties": false, "properties": properties, "required": fields,
    });
    let description = format!("{name}, as the operator configured it.");
    let (name, timeout_ms) = (name.to_owned(), 10_000);
    ToolSpec { name, description, input_schema, class, timeout_ms, trust, ..ToolSpec::default() }
}

/// The descriptions of all tools. Building the real tools takes a moment, so it is done once.
static SPECS: LazyLock<Vec<ToolSpec>> = LazyLock::new(specs);

fn specs() -> Vec<ToolSpec> {
    use EffectClass::{Idempotent, SideEffectFree, Unsafe};
    let stranger = Trust { untrusted_output: true, ..Trust::default() };
    let sends = Trust { egress: Egress::Yes, ..stranger };
    let asks = Trust { approve: true, ..Trust::default() };
    let mut specs = built_in();
    specs.extend([
        configured("run_code", &["source"], Unsafe, stranger),
        configured("delete_everything", &[], Unsafe, Trust::default()),
        configured("charge_card", &["cents"], Unsafe, asks),
        configured("send_mail", &["to", "body"], Unsafe, sends),
        configured("post_note", &["text"], Idempotent, sends),
        configured("whois", &["name"], SideEffectFree, sends),
        configured("mcp.notes.find", &["q"], SideEffectFree, stranger),
        configured("mcp.notes.share", &["note", "with"], Unsafe, sends),
        // Like the one of the tests: it comes with Baton and changes something.
        configured("test_effect", &[], Unsafe, Trust::BUILT_IN),
    ]);
    specs
}

/// The tools of an attack.
pub(super) fn tools(attack: &Attack, reached: &Reached, ledger: &Arc<Ledger>) -> Vec<Arc<dyn Tool>> {
    let tool = |mut spec: ToolSpec| {
        if spec.name != "web_search" {
            spec.output_schema = None; // an attack may stand anywhere in a result
        }
        if attack.trusts.contains(&spec.name) {
            spec.trust.untrusted_output = false;
        }
        if let Some(said) = attack.describes.get(&spec.name) {
            spec.description = attack.filled(said);
        }
        let gives = Mutex::new(attack.given_by(&spec.name));
        Arc::new(Recorder { spec, gives, reached: reached.clone(), ledger: ledger.clone() }) as Arc<dyn Tool>
    };
    SPECS.iter().cloned().map(tool).collect()
}
