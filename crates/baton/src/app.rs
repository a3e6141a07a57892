//! The application that every command receives: an engine with its data, its settings and its models.

use baton_core::id::{RunId, Tenant, ThreadId, excerpt};
use baton_core::json::{canonical, sha256_hex};
use baton_core::policy::{Decision, Mode, Policy, Request};
use baton_engine::{Clock, Engine, RunRequest, SystemClock};
use baton_store::{RunFilter, Store};
use serde_json::json;

use crate::config::{Config, question, unfit};
use crate::failure::Failure;
use crate::models::{Chosen, Models};
use crate::terminal::{CARE, note, styled};

/// An engine on one tenant's data, and the form of the output.
pub(crate) struct App {
    /// The engine that drives the runs.
    pub(crate) engine: Engine,
    /// The tenant that owns the data.
    pub(crate) tenant: Tenant,
    /// Whether the output is one JSON document instead of text.
    pub(crate) json: bool,
    /// The settings that the app was opened with.
    pub(crate) config: Config,
    /// The models that may answer.
    pub(crate) models: Models,
}

impl App {
    /// The store of the engine.
    pub(crate) fn store(&self) -> &Store {
        self.engine.store()
    }

    /// Whether the store is read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.store(), Store::Sqlite(store) if store.is_read_only())
    }

    /// The request for one message to the chosen models, with the settings' instructions.
    pub(crate) fn request(&self, text: String, chosen: &Chosen) -> Result<RunRequest, Failure> {
        let mut request = RunRequest::new(text, &chosen.model);
        request.tenant = self.tenant.clone();
        request.roles = chosen.roles.clone();
        request.system = self.config.system.clone();
        request.behavior_template = self.config.template.as_ref().map(|it| it.text()).transpose()?;
        request.render = self.config.render.clone();
        request.last_n = self.config.last_n;
        Ok(request)
    }

    /// Finds a channel by its name, in upper or lower case. Refuses an unknown one before anything else is done.
    pub(crate) fn channel(&self, name: &str) -> Result<String, Failure> {
        let Policy::Table(table) = &self.config.policy else { return Ok(name.to_owned()) };
        let known: Vec<&str> = table.channels().collect();
        if let Some(meant) = known.iter().find(|known| known.eq_ignore_ascii_case(name)) {
            return Ok((*meant).to_owned());
        }
        let near = question(&name.to_ascii_uppercase(), known.iter().copied());
        let why = format!("there is no channel {:?}{near}", excerpt(name));
        let there_are = known.join(", ");
        Err(Failure::usage(why)
            .hint(format!("there are {there_are}; [policy.channels.NAME] in baton.toml adds one")))
    }

    /// Records the policy that holds from now on, with the declared properties of the tools; the audit trail gets an
    /// event if another policy held before. A failure to record it does not stop the command.
    pub(crate) async fn note_policy(&self) {
        let Policy::Table(table) = &self.config.policy else { return };
        let Ok(mut rows) = serde_json::to_value(table.rows()) else { return };
        let tools = self.config.web.tools_said();
        if !tools.is_empty() {
            rows = json!({"rows": rows, "tools": tools});
        }
        let hash = sha256_hex(canonical(&rows).as_bytes());
        let at = SystemClock.now();
        let payload = json!({"policy": hash, "at": at});
        let told = self.config.engine.audit.event(at, "policy.changed", "policy".to_owned(), payload);
        if let Err(error) = self.store().note_policy(&hash, told).await {
            tracing::debug!(%error, "which policy holds was not noted");
        }
    }

    /// The policy's decision about messages on a channel.
    pub(crate) fn decide(&self, mode: Mode, channel: &str) -> Result<Decision, Failure> {
        let decided = self.config.policy.evaluate(&Request { mode, channel }, &self.engine.tools().specs());
        decided.map_err(|error| Failure::usage(error.to_string()))
    }

    /// Refuses a name in `approve` that no tool has, and reports the patterns there that match no tool: they look like
    /// protection, and protect nothing.
    pub(crate) fn check_approvals(&self) -> Result<(), Failure> {
        let tools = self.engine.tools().specs();
        let unfit = unfit(&self.config.tool_lists, &tools);
        let (wrong, doubtful): (Vec<_>, Vec<_>) =
            unfit.iter().filter(|it| it.list.asks()).partition(|it| self.config.is_mistaken(it));
        let wrong = wrong.into_iter().map(|it| {
            let why = format!("{}`{}`: {it}", it.list.place(), it.list.key);
            Failure::usage(why)
                .hint("baton tools ls shows what there is; a call that is meant to wait would not")
        });
        Failure::of_all(wrong.collect())?;
        doubtful.iter().for_each(|it| note(styled(CARE, format!("{}: {it}", it.list.key))));
        Ok(())
    }

    /// A run by its id, or by the beginning or the end of it.
    pub(crate) async fn run_id(&self, text: &str) -> Result<RunId, Failure> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let fragment = text.to_ascii_lowercase().replace('-', "");
        if fragment.len() < 4 || !fragment.bytes().all(|b| b.is_ascii_hexdigit()) {
            let expected = "give the whole id, or at least 4 characters of its beginning or end";
            return Err(Failure::usage(format!("{text:?} is not a run id")).hint(expected));
        }
        let filter = RunFilter { fragment: Some(fragment), limit: 2, ..RunFilter::default() };
        let found = self.store().runs(&self.tenant, &filter).await?;
        match found.as_slice() {
            [one] => Ok(one.id),
            [] => Err(Failure::not_found(format!("there is no run {text:?}"))
                .hint("baton runs ls shows what there is")),
            _ => Err(Failure::usage(format!("{text:?} fits more than one run")).hint("give more of the id")),
        }
    }

    /// A thread by its id, or by a beginning or end of it that only one thread has.
    pub(crate) async fn thread_id(&self, text: &str) -> Result<ThreadId, Failure> {
        let id: ThreadId = text.parse().map_err(|e: baton_core::id::BadId| Failure::usage(e.to_string()))?;
        if self.store().thread(&self.tenant, &id).await.is_ok() {
            return Ok(id);
        }
        let all = self.store().threads(&self.tenant, 1000, None).await?;
        // Only ids that Baton made may be shortened: a name that a user chose must match exactly.
        let fits = |id: &ThreadId| {
            let made = id.as_str().parse::<RunId>().is_ok();
            made && text.len() >= 4 && (id.as_str().starts_with(text) || id.as_str().ends_with(text))
        };
        let mut found = all.into_iter().map(|thread| thread.id).filter(fits);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(Failure::not_found(format!("there is no thread {text:?}"))
                .hint("baton threads ls shows what there is")),
            _ => {
                Err(Failure::usage(format!("{text:?} fits more than one thread")).hint("give more of the id"))
            }
        }
    }
}
