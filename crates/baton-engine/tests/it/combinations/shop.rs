//! The tools: they record their calls, and then work, fail in every way, hang or panic.

use std::sync::{Arc, Mutex};

use baton_core::tool::{EffectClass, Egress, ToolSpec, Trust};
use baton_tools::{CallContext, Output, Tool, ToolError};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::dice::Dice;
use super::endpoint::Book;
use crate::world::Ledger;

/// How long a tool may take, in milliseconds.
const TIMEOUT_MS: u64 = 150;

/// The calls that reached the tools of one combination.
pub(super) struct Shop {
    pub(super) seed: u64,
    /// Faults in a hundred calls.
    pub(super) faults: u64,
    pub(super) book: Arc<Book>,
    pub(super) ledger: Arc<Ledger>,
    reached: Mutex<Vec<String>>,
}

impl Shop {
    pub(super) fn new(seed: u64, faults: u64, book: Arc<Book>, ledger: Arc<Ledger>) -> Shop {
        Shop { seed, faults, book, ledger, reached: Mutex::default() }
    }

    /// The tools that were reached, by name.
    pub(super) fn reached(&self) -> Vec<String> {
        self.reached.lock().unwrap().clone()
    }
}

struct Clerk {
    spec: ToolSpec,
    shop: Arc<Shop>,
}

impl Tool for Clerk {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        let (shop, spec) = (self.shop.clone(), self.spec.clone());
        Box::pin(async move {
            shop.ledger.note(&context.key, &spec.name, spec.class);
            let n = {
                let mut reached = shop.reached.lock().unwrap();
                reached.push(spec.name.clone());
                reached.len() as u64
            };
            shop.book.arrived.notify_one();
            let mut dice = Dice::new(shop.seed, 1_000_000 + n);
            if !dice.chance(shop.faults) {
                return Ok(works(&spec.name, arguments, &mut dice));
            }
            match dice.below(7) {
                0 => Err(ToolError::new("the service is down")),
                1 => Err(ToolError::before_start("the service could not be reached")),
                2 => Err(ToolError::invalid_call("there is no such thing; ask for another")),
                3 => panic!("as told"),
                4 => Ok(Output::Bytes(vec![0xff; 70_000])),
                5 => {
                    context.cancel.cancelled().await;
                    Err(ToolError::new("stopped"))
                }
                _ => std::future::pending().await,
            }
        })
    }
}

fn works(name: &str, arguments: Value, dice: &mut Dice) -> Output {
    let hit = json!({"title": "Tea", "url": "https://tea.example/green", "snippet": "All about tea."});
    match name {
        "web_search" => Output::Json(json!({"results": [hit]})),
        "update_plan" => Output::Json(arguments),
        _ if dice.chance(10) => Output::Text("tea ".repeat(10_000)),
        _ => Output::Json(json!({"did": name})),
    }
}

/// The tools on offer.
pub(super) fn tools(shop: &Arc<Shop>) -> Vec<Arc<dyn Tool>> {
    use EffectClass::{Idempotent, SideEffectFree, Unsafe};
    let text = json!({"type": "string", "minLength": 1});
    let stranger = Trust { untrusted_output: true, ..Trust::BUILT_IN };
    let visits = Trust { egress: Egress::UnlessFound, ..stranger };
    let asks = Trust { approve: true, ..Trust::default() };
    let tool = |name: &str, field: Option<&str>, class, trust| {
        let properties: Value = field
            .map(|field| (field.to_owned(), text.clone()))
            .into_iter()
            .collect::<serde_json::Map<_, _>>()
            .into();
        let required: Vec<&str> = field.into_iter().collect();
        let input_schema = match name {
            "update_plan" => json!({"type": "object", "required": ["plan"]}),
            _ => {
                json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required})
            }
        };
        let (name, description) = (name.to_owned(), format!("{name} of the tests"));
        let spec = ToolSpec {
            name,
            description,
            input_schema,
            output_schema: None,
            class,
            timeout_ms: TIMEOUT_MS,
            trust,
            ..ToolSpec::default()
        };
        Arc::new(Clerk { spec, shop: shop.clone() }) as Arc<dyn Tool>
    };
    vec![
        tool("web_search", Some("query"), SideEffectFree, stranger),
        tool("fetch_url", Some("url"), SideEffectFree, visits),
        tool("system_health", None, SideEffectFree, Trust::BUILT_IN),
        tool("system_logs", None, SideEffectFree, Trust::BUILT_IN),
        tool("update_plan", None, SideEffectFree, Trust::BUILT_IN),
        tool("run_code", Some("source"), Unsafe, Trust { untrusted_output: true, ..Trust::default() }),
        tool("put", Some("text"), Idempotent, Trust::default()),
        tool("charge_card", Some("cents"), Unsafe, asks),
    ]
}
