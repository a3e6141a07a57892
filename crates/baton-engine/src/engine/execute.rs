//! A tool call outside any run: decided by policy like a request on its own channel, and with a key made only once,
//! even if a process dies meanwhile.

use std::collections::HashSet;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::effect::BlobRef;
use baton_core::id::{OwnerId, Tenant};
use baton_core::json::as_text;
use baton_core::policy::{CallRule, EXECUTE};
use baton_core::thread::Closing;
use baton_core::tool::EffectClass;
use baton_store::{AuditEvent, KeyRow, NewKey};
use baton_tools::{CallContext, Registry, ToolCallResult};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Engine, Shared};
use crate::audit::calls::{executed, has_effects};
use crate::error::EngineError;
use crate::loads::LoadGuard;
use crate::patience::patiently;
use crate::request::{Execute, Executed};

/// The answer to the caller of an interrupted call, whose outcome is unknown.
const UNKNOWN: &str =
    "the call was interrupted, and nobody knows whether it took effect; it is not made again";

/// The answer to the caller of a call that is still under way.
const LATER: &str = "the call is still being made: ask again later";
/// How long a caller waits for a call that another request makes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A keyed call: its tenant, its route, and its key.
type Named = (Tenant, String, String);

/// The keyed calls of this process.
#[derive(Debug, Default)]
pub(super) struct Making {
    /// Those that a request is working on.
    busy: HashSet<Named>,
    /// Those that were started and have no answer in the store yet.
    started: HashSet<Named>,
}

fn named(tenant: &Tenant, key: &NewKey) -> Named {
    (tenant.clone(), key.route.clone(), key.key.clone())
}

/// The only request of this process that works on a keyed call, until it is dropped.
struct Busy {
    shared: Arc<Shared>,
    named: Named,
}

impl Busy {
    fn take(shared: &Arc<Shared>, tenant: &Tenant, key: &NewKey) -> Option<Busy> {
        let named = named(tenant, key);
        let is_first = shared.making().busy.insert(named.clone());
        is_first.then(|| Busy { shared: shared.clone(), named })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.shared.making().busy.remove(&self.named);
    }
}

/// A call that counts as under way until this is dropped, even if it panics.
struct Counted(Arc<Shared>, #[allow(dead_code, reason = "it counts until it is dropped")] LoadGuard);

impl Counted {
    fn new(shared: &Arc<Shared>, tenant: &Tenant) -> Counted {
        shared.executing.fetch_add(1, SeqCst);
        Counted(shared.clone(), shared.loads.count(tenant))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.executing.fetch_sub(1, SeqCst);
    }
}

/// Whether a keyed call is still to be made.
enum Turn {
    /// Yes: by this request.
    Ours,
    /// No: it was made, with this answer.
    Done(Executed),
}

impl Engine {
    /// Calls a tool. Any problem with the tool or its arguments is part of the answer; only a store that does not
    /// answer, or a key that was used for another request, is an error.
    pub async fn execute(&self, call: Execute) -> Result<Executed, EngineError> {
        self.execute_holding(call, ()).await
    }

    /// Calls a tool like `execute`, while the caller holds a place in this process's limit of concurrent work. The
    /// place is dropped as soon as the call counts in [`Engine::load`], or none will be made: at every moment one of
    /// the two counts.
    pub async fn execute_holding<P: Send + 'static>(
        &self,
        call: Execute,
        place: P,
    ) -> Result<Executed, EngineError> {
        if self.shared.closing.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        let tools = self.shared.tools();
        let decision = self.shared.decision(call.mode, EXECUTE);
        let decision = decision.map_err(|error| EngineError::Invalid(error.to_string()))?;
        let Some(tool) = tools.get(&call.name) else {
            return Ok(refused(format!("there is no tool {:?}", call.name)));
        };
        let asks = tool.spec().trust.approve;
        match decision.call(&call.name) {
            CallRule::Denied => return Ok(refused(decision.refusal(&call.name).1)),
            rule if asks || rule == CallRule::NeedsApproval => {
                let why = format!("{} needs a person's approval, which only a run can ask for", call.name);
                return Ok(refused(why));
            }
            _ => {}
        }
        if let Err(misfit) = tools.validate(&call.name, &call.arguments) {
            return Ok(refused(misfit));
        }
        let class = tool.class(&call.arguments);
        // A task of its own: a caller that disconnects does not leave a call half made and unanswered.
        let this = self.clone();
        let making = self.shared.tasks.spawn(async move {
            let _counted = Counted::new(&this.shared, &call.tenant);
            drop(place);
            match call.key.clone() {
                None => this.make_unkeyed(&tools, call, class).await,
                Some(key) => this.make_once(&tools, call, &key, class).await,
            }
        });
        making.await.unwrap_or_else(|_| Ok(refused("the call broke down".to_owned())))
    }

    /// A call without a key, which cannot be asked for again. Its start and its outcome are each written to the audit
    /// trail, so a call that a process died with is recorded, too.
    async fn make_unkeyed(
        &self,
        tools: &Registry,
        call: Execute,
        class: EffectClass,
    ) -> Result<Executed, EngineError> {
        let id = Uuid::now_v7().to_string();
        let tenant = call.tenant.clone();
        self.tell_start(&call, &id, class).await?;
        let told = self.outcome_told(&call, &id, class);
        let (executed, outcome) = self.make(tools, call, id).await?;
        if let Some(event) = told(outcome) {
            patiently!(self.shared, self.shared.store.tell(&tenant, event.clone()))?;
        }
        Ok(executed)
    }

    /// Writes to the audit trail that a call with effects is about to be made.
    async fn tell_start(&self, call: &Execute, id: &str, class: EffectClass) -> Result<(), EngineError> {
        let shared = &self.shared;
        if has_effects(class) {
            let event = executed(&shared.settings.audit, call, id, class, None, shared.clock.now());
            patiently!(shared, shared.store.tell(&call.tenant, event.clone()))?;
        }
        Ok(())
    }

    /// The audit event for the outcome of a call; none for a call without effects.
    fn outcome_told(
        &self,
        call: &Execute,
        id: &str,
        class: EffectClass,
    ) -> impl Fn(Closing) -> Option<AuditEvent> + use<> {
        let shared = self.shared.clone();
        let about = has_effects(class).then(|| (call.clone(), id.to_owned()));
        move |outcome| {
            let (call, id) = about.as_ref()?;
            let now = shared.clock.now();
            Some(executed(&shared.settings.audit, call, id, class, Some(outcome), now))
        }
    }

    async fn make_once(
        &self,
        tools: &Registry,
        call: Execute,
        key: &NewKey,
        class: EffectClass,
    ) -> Result<Executed, EngineError> {
        let (shared, tenant, me) = (&self.shared, call.tenant.clone(), self.owner());
        let turn = Busy::take(shared, &tenant, key); // none: another request of this process works on it
        if turn.is_some() {
            let now = shared.clock.now();
            let known = patiently!(shared, shared.store.begin_key(&tenant, key, None, Some(me), now))?;
            if let Some(known) = known
                && let Turn::Done(executed) = self.known(&call, key, known, class, true).await?
            {
                return Ok(executed);
            }
        } else {
            let now = shared.clock.now();
            let known = patiently!(shared, shared.store.key(&tenant, &key.route, &key.key, now))?;
            let known = known.unwrap_or_else(|| KeyRow {
                body_hash: key.body_hash.clone(),
                run: None,
                owner: Some(me),
                answer: None,
            });
            return match self.known(&call, key, known, class, false).await? {
                Turn::Done(executed) => Ok(executed),
                Turn::Ours => Ok(refused(LATER.to_owned())),
            };
        }
        self.tell_start(&call, &key.key, class).await?;
        shared.making().started.insert(named(&tenant, key));
        let told = self.outcome_told(&call, &key.key, class);
        let (executed, outcome) = self.make(tools, call, key.key.clone()).await?;
        let answer = serde_json::to_vec(&executed).unwrap_or_default();
        let (route, of, told) = (&key.route, &key.key, told(outcome));
        patiently!(shared, shared.store.answer_call(&tenant, route, of, me, answer.clone(), told.clone()))?;
        shared.making().started.remove(&named(&tenant, key));
        Ok(executed)
    }

    /// A call that was asked for before: its outcome, waited for if needed. If the process that made it is dead, it is
    /// made again only where that does no harm. `alone`: no other request of this process works on it.
    async fn known(
        &self,
        call: &Execute,
        key: &NewKey,
        mut known: KeyRow,
        class: EffectClass,
        alone: bool,
    ) -> Result<Turn, EngineError> {
        let (shared, tenant, me) = (&self.shared, &call.tenant, self.owner());
        let until = Instant::now() + call.timeout.unwrap_or(PATIENCE).min(PATIENCE);
        loop {
            if known.body_hash != key.body_hash {
                return Err(EngineError::KeyMismatch);
            }
            if let Some(answer) = &known.answer {
                let answer = serde_json::from_slice(answer);
                return Ok(Turn::Done(answer.unwrap_or_else(|_| refused(UNKNOWN.to_owned()))));
            }
            let owner = known.owner.unwrap_or(OwnerId(Uuid::nil()));
            let is_ours = owner == me && alone; // noted, but the answer was lost; or left by a call that panicked
            if is_ours && !shared.making().started.contains(&named(tenant, key)) {
                return Ok(Turn::Ours);
            }
            let (route, of) = (&key.route, &key.key);
            let is_of_the_dead = owner != me && !shared.store.is_alive(owner).await;
            if is_of_the_dead {
                // Before it is taken over: if the takeover succeeds and its answer is lost, the call is ours, and had
                // begun all the same.
                shared.making().started.insert(named(tenant, key));
            }
            let is_left = is_ours
                || (is_of_the_dead
                    && patiently!(shared, shared.store.retake_key(tenant, route, of, owner, me))?);
            if is_left {
                if class.may_run_again() {
                    return Ok(Turn::Ours);
                }
                let unknown = refused(UNKNOWN.to_owned());
                let answer = serde_json::to_vec(&unknown).unwrap_or_default();
                let told = self.outcome_told(call, of, class)(Closing::Unknown);
                let store = &shared.store;
                patiently!(shared, store.answer_call(tenant, route, of, me, answer.clone(), told.clone()))?;
                shared.making().started.remove(&named(tenant, key));
                return Ok(Turn::Done(unknown));
            }
            if Instant::now() >= until || shared.closing.is_cancelled() {
                return Ok(Turn::Done(refused(LATER.to_owned())));
            }
            tokio::time::sleep(shared.settings.poll).await;
            let now = shared.clock.now();
            // Checked first: a request that has finished by then has left its answer in the store.
            let under_way = !alone && shared.making().busy.contains(&named(tenant, key));
            match patiently!(shared, shared.store.key(tenant, route, of, now))? {
                Some(row) => {
                    if row.owner != Some(me) {
                        shared.making().started.remove(&named(tenant, key)); // another process took it over
                    }
                    known = row;
                }
                None if under_way => {} // it is not noted yet
                None => return Ok(Turn::Done(refused(UNKNOWN.to_owned()))), // it took longer than keys are kept
            }
        }
    }

    /// Makes the call. A process that shuts down stops it at its deadline, and records no outcome.
    async fn make(
        &self,
        tools: &Registry,
        call: Execute,
        key: String,
    ) -> Result<(Executed, Closing), EngineError> {
        let wants_context = tools.get(&call.name).is_some_and(|tool| tool.spec().requires_context);
        let cancel = CancellationToken::new();
        let context = CallContext {
            call_id: key.clone(),
            key,
            cancel: cancel.clone(),
            roots: Vec::new(),
            tenant: call.tenant.clone(),
            metadata: if wants_context { call.metadata } else { Value::Null },
            permit: Default::default(),
        };
        let began = Instant::now();
        let timeout = call.timeout.unwrap_or(Duration::MAX);
        let making = tokio::time::timeout(timeout, tools.call(&call.name, call.arguments, context));
        let ran = tokio::select! {
            ran = making => ran,
            () = self.shared.out_of_time() => {
                cancel.cancel();
                return Err(EngineError::ShuttingDown);
            }
        };
        let execution_time_ms = began.elapsed().as_secs_f64() * 1000.0;
        Ok(match ran {
            Ok(ran) => {
                let outcome = ran.outcome.status;
                (self.told(&call.tenant, ran, execution_time_ms).await, outcome)
            }
            Err(_elapsed) => {
                let output = json!(format!("{} did not finish in time and was stopped", call.name));
                (Executed { is_ok: false, output, execution_time_ms }, Closing::Unknown)
            }
        })
    }

    /// The answer to the caller: a long output whole, where it was kept.
    async fn told(&self, tenant: &Tenant, ran: ToolCallResult, execution_time_ms: f64) -> Executed {
        if let (Some(bytes), Some(BlobRef { hash, .. })) = (ran.blob, &ran.outcome.blob)
            && let Err(error) = patiently!(
                self.shared,
                self.shared.store.put_blob(tenant, hash, bytes.clone(), self.shared.clock.now())
            )
        {
            tracing::warn!(%error, "a long output was not kept");
        }
        let is_ok = ran.outcome.status == Closing::Ok;
        let output = if is_ok { ran.outcome.result } else { json!(as_text(&ran.outcome.result)) };
        Executed { is_ok, output, execution_time_ms }
    }
}

fn refused(why: String) -> Executed {
    Executed { is_ok: false, output: Value::String(why), execution_time_ms: 0.0 }
}

impl Shared {
    fn making(&self) -> MutexGuard<'_, Making> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes when a process that shuts down has to stop calls that are still under way.
    async fn out_of_time(&self) {
        self.went_down().await;
        if let Some(at) = self.goes_down_at() {
            tokio::time::sleep_until(at).await;
        }
    }
}
