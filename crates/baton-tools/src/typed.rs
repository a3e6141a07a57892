//! Typed tools: a [`Tool`] made of a typed function.
//!
//! The schemas are derived from the very types that the function takes and returns, so the schema that a model
//! sees, the check and the code cannot drift apart.

use std::marker::PhantomData;
use std::sync::Arc;

use baton_core::tool::{EffectClass, ToolSpec, Trust};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::tool::{CallContext, Output, Tool, ToolError};

/// The spec of a tool without its schemas.
pub(crate) struct ToolInfo {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) class: EffectClass,
    pub(crate) timeout_ms: u64,
    pub(crate) trust: Trust,
}

/// The return value of a typed function: structured data ([`Structured`]) or text.
pub(crate) trait ToolReturn: Send + 'static {
    fn schema() -> Option<Value>;
    fn into_output(self) -> Result<Output, ToolError>;
}

/// A structured result; its schema becomes the tool's output schema.
pub(crate) struct Structured<T>(pub(crate) T);

impl<T: Serialize + JsonSchema + Send + 'static> ToolReturn for Structured<T> {
    fn schema() -> Option<Value> {
        Some(schema_of::<T>(SchemaSettings::draft2020_12().for_serialize()))
    }

    fn into_output(self) -> Result<Output, ToolError> {
        let value = serde_json::to_value(self.0)
            .map_err(|error| ToolError::new(format!("The result could not be written as JSON: {error}.")))?;
        Ok(Output::Json(value))
    }
}

impl ToolReturn for String {
    fn schema() -> Option<Value> {
        None
    }

    fn into_output(self) -> Result<Output, ToolError> {
        Ok(Output::Text(self))
    }
}

/// A tool made of an async function.
pub(crate) fn typed<A, O, F, Fut>(about: ToolInfo, run: F) -> Arc<dyn Tool>
where
    A: DeserializeOwned + JsonSchema + 'static,
    O: ToolReturn,
    F: Fn(A, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    let spec = about.spec::<A>(O::schema());
    Arc::new(TypedTool { spec, run, arguments: PhantomData::<fn(A)> })
}

/// A tool made of a function that blocks; it runs beside the async threads.
pub(crate) fn blocking<A, O, F>(about: ToolInfo, run: F) -> Arc<dyn Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    O: ToolReturn,
    F: Fn(A, &CallContext) -> Result<O, ToolError> + Send + Sync + 'static,
{
    let run = Arc::new(run);
    typed(about, move |arguments: A, context: CallContext| {
        let run = Arc::clone(&run);
        async move { off_thread(move || run(arguments, &context)).await? }
    })
}

/// Runs blocking work on a thread for it, so that no task is held up.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        ToolError::unknown("The tool broke down. This is a fault of the tool, not of the arguments.")
    })
}

impl ToolInfo {
    /// The whole spec of a tool that takes an `A`.
    pub(crate) fn spec<A: JsonSchema>(self, output_schema: Option<Value>) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            input_schema: schema_of::<A>(SchemaSettings::draft2020_12()),
            output_schema,
            class: self.class,
            timeout_ms: self.timeout_ms,
            trust: self.trust,
            requires_context: false,
            service: None,
        }
    }
}

/// The schema of a type, without the names of Rust types: they mean nothing to a model.
fn schema_of<T: JsonSchema>(mut settings: SchemaSettings) -> Value {
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    if schema.get("type").is_some_and(|kind| kind == "object") && schema.get("properties").is_none() {
        // Some providers refuse an object that does not say that it has none.
        schema.insert("properties".to_owned(), json!({}));
    }
    schema.to_value()
}

/// Reads arguments into their type. A schema admits `1.0` where Rust wants an integer, so this can
/// still fail after the check.
pub(crate) fn parse_arguments<A: DeserializeOwned>(arguments: Value) -> Result<A, ToolError> {
    serde_json::from_value(arguments)
        .map_err(|error| ToolError::invalid_call(format!("The arguments do not fit: {error}.")))
}

struct TypedTool<A, F> {
    spec: ToolSpec,
    run: F,
    arguments: PhantomData<fn(A)>,
}

impl<A, O, F, Fut> Tool for TypedTool<A, F>
where
    A: DeserializeOwned + 'static,
    O: ToolReturn,
    F: Fn(A, CallContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        match parse_arguments(arguments) {
            Err(error) => std::future::ready(Err(error)).boxed(),
            Ok(arguments) => (self.run)(arguments, context).map(|answer| answer?.into_output()).boxed(),
        }
    }
}
