//! A transition as values of its statement, encoded by its caller and not by the worker that writes it.
//!
//! The order in which values are pushed here is the order in which [`super::statement`] numbers them.
//! [`super::several`] does the same for many transitions at once.

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::run::{Approval, RUN_VERSION};
use baton_core::time::Timestamp;
use uuid::Uuid;

use super::Param;
use super::row;
use super::statement::{ExtraRows, Form, Halt, RowCount, StartKind};
use super::tree::stored;
use crate::error::StoreError;
use crate::record;
use crate::runs::Fence;
use crate::service::AuditEvent;
use crate::threads::FirstMarked;
use crate::transition::{NewRun, RunHalt, Transition};

/// A transition as bytes and numbers.
#[derive(Debug)]
pub(super) struct PgTransition {
    pub(super) run: RunId,
    pub(super) thread: ThreadId,
    pub(super) lane: u32,
    pub(super) budget: Vec<u8>,
    pub(super) fence: Fence,
    pub(super) at: Timestamp,
    pub(super) rest: RunHalt,
    pub(super) tenant: Tenant,
    pub(super) frame: String,
    pub(super) head: i64,
    inbox_read: u32,
    pub(super) progress: bool,
    pub(super) entries: Entries,
    pub(super) marked: FirstMarked,
    pub(super) body: (Vec<u8>, u32),
    asked: Vec<(Approval, (Vec<u8>, u32))>,
    pub(super) audit: Vec<PgEvent>,
}

/// Entries as one list per column.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) ids: Vec<Uuid>,
    pub(super) envelopes: Vec<Vec<u8>>,
    pub(super) crcs: Vec<i64>,
}

impl PgTransition {
    pub(super) fn new(tenant: &Tenant, transition: &Transition) -> Result<PgTransition, StoreError> {
        let Transition { run, checkpoint, .. } = transition;
        let mut entries = Entries::default();
        for new in &transition.entries {
            let envelope = crate::envelope::encode(&new.entry, new.at)?;
            entries.ids.push(new.id.0);
            entries.crcs.push(i64::from(crc32fast::hash(&envelope)));
            entries.envelopes.push(envelope);
        }
        let asked = |approval: &Approval| record::encode(approval).map(|bytes| (approval.clone(), bytes));
        Ok(PgTransition {
            run: *run,
            thread: transition.thread.clone(),
            lane: transition.lane,
            budget: serde_json::to_vec(&checkpoint.budget)
                .map_err(|e| StoreError::corrupt("budget", run, e))?,
            fence: Fence::of(transition),
            at: checkpoint.at,
            rest: transition.rest,
            tenant: tenant.clone(),
            frame: transition.frame.to_string(),
            head: checkpoint.head,
            inbox_read: checkpoint.inbox_read,
            progress: transition.progress,
            entries,
            marked: transition.first_marked(),
            body: record::encode(checkpoint)?,
            asked: transition.asked.iter().map(asked).collect::<Result<_, _>>()?,
            audit: transition.audit.iter().map(PgEvent::new).collect::<Result<_, _>>()?,
        })
    }

    /// Whether a run can begin with this transition in one statement.
    pub(super) fn is_plain(&self) -> bool {
        self.rest == RunHalt::Running
            && self.marked.is_clean()
            && self.asked.is_empty()
            && !self.entries.ids.is_empty()
    }

    /// Whether this transition can be written together with others in one statement.
    pub(super) fn goes_with_others(&self) -> bool {
        !matches!(self.rest, RunHalt::Suspended { .. }) && self.asked.is_empty()
    }

    fn parts(&self) -> ExtraRows {
        ExtraRows {
            entries: RowCount::of(self.entries.ids.len()),
            marked: !self.marked.is_clean(),
            asked: !self.asked.is_empty(),
            audit: RowCount::of(self.audit.len()),
            ..ExtraRows::default()
        }
    }

    /// The statement that advances the run.
    pub(super) fn advance(&self) -> (Form, Vec<Param<'_>>) {
        let parts = self.parts();
        let halt = match self.rest {
            RunHalt::Running => Halt::No,
            RunHalt::Suspended { .. } => Halt::Suspended,
            RunHalt::Ended(_) => Halt::Ended,
        };
        let mut values: Vec<Param<'_>> = vec![
            Box::new(self.tenant.as_str()),
            Box::new(self.run.0),
            Box::new(self.fence.epoch as i32),
            Box::new(self.fence.step as i32),
            Box::new(self.fence.last_seq as i64),
            Box::new(self.head),
            Box::new(&self.budget),
            Box::new(self.progress),
            Box::new(self.fence.inbox.map(|inbox| inbox as i32)),
            Box::new(self.fence.events as i64),
            Box::new(&self.frame),
            Box::new(&self.body.0),
            Box::new(i64::from(self.body.1)),
        ];
        if parts.entries != RowCount::None || parts.marked || halt == Halt::Ended {
            values.push(Box::new(self.thread.as_str()));
            values.push(Box::new(stored(self.lane)));
        }
        self.entries.push_to(&mut values);
        if parts.marked {
            values.push(Box::new(self.marked.untrusted));
            values.push(Box::new(self.marked.private));
        }
        if parts.asked {
            push_asked(&self.asked, &mut values);
        }
        push_audit(&self.audit, &mut values);
        match self.rest {
            RunHalt::Running => {}
            RunHalt::Suspended { wake_at } => {
                values.push(Box::new(wake_at.0));
                values.push(Box::new(self.inbox_read as i32));
            }
            RunHalt::Ended(status) => {
                values.push(Box::new(row::stored(status)));
                values.push(Box::new(self.at.0));
            }
        }
        (Form::Advance(parts, halt), values)
    }
}

/// A run that begins in one statement, with its first transition.
#[derive(Debug)]
pub(super) struct PackedStart {
    pub(super) first: PgTransition,
    pub(super) new: NewRun,
    /// The lane that the run writes to.
    pub(super) lane: u32,
    /// The definition, unless it is known to be stored.
    pub(super) definition: Option<(Vec<u8>, u32)>,
    pub(super) metadata: Vec<u8>,
    /// The metadata of the thread, if that is created with the run.
    pub(super) meta: Vec<u8>,
}

impl PackedStart {
    pub(super) fn new(
        first: PgTransition,
        new: NewRun,
        lane: u32,
        definition: Option<(Vec<u8>, u32)>,
    ) -> PackedStart {
        let metadata = new.metadata.to_string().into_bytes();
        let meta =
            new.new_thread.as_ref().map_or_else(Vec::new, |thread| thread.meta.to_string().into_bytes());
        PackedStart { first, new, lane, definition, metadata, meta }
    }

    /// The statement that begins it alone.
    pub(super) fn begin(&self) -> (Form, Vec<Param<'_>>) {
        let PackedStart { first, new, .. } = self;
        let parts =
            ExtraRows { key: new.key.is_some(), definition: self.definition.is_some(), ..first.parts() };
        let mut values: Vec<Param<'_>> = vec![
            Box::new(first.tenant.as_str()),
            Box::new(first.run.0),
            Box::new(first.thread.as_str()),
            Box::new(new.branch.as_str()),
            Box::new(stored(self.lane)),
            Box::new(new.owner.0),
            Box::new(first.fence.last_seq as i64),
            Box::new(first.head),
            Box::new(&new.definition.hash),
            Box::new(RUN_VERSION as i32),
            Box::new(&first.budget),
            Box::new(new.at.0),
            Box::new(&self.metadata),
            Box::new(&first.frame),
            Box::new(&first.body.0),
            Box::new(i64::from(first.body.1)),
        ];
        let origin = match &new.new_thread {
            Some(thread) => {
                values.push(Box::new(thread.at.0));
                values.push(Box::new(thread.ttl_at.map(|at| at.0)));
                values.push(Box::new(&self.meta));
                StartKind::Fresh
            }
            None => {
                values.push(Box::new(new.expected_head));
                values.push(Box::new(new.after.map(|run| run.0)));
                StartKind::Branch
            }
        };
        first.entries.push_to(&mut values);
        push_audit(&first.audit, &mut values);
        if let Some(key) = &new.key {
            values.extend([&key.route, &key.key, &key.body_hash].map(|text| -> Param<'_> { Box::new(text) }));
            values.push(Box::new(key.expires_at.0));
        }
        if let Some((body, crc)) = &self.definition {
            values.push(Box::new(body));
            values.push(Box::new(i64::from(*crc)));
        }
        (Form::Begin(origin, parts), values)
    }
}

impl Entries {
    fn push_to<'a>(&'a self, values: &mut Vec<Param<'a>>) {
        match (&self.ids[..], &self.envelopes[..], &self.crcs[..]) {
            ([], ..) => {}
            ([id], [envelope], [crc]) => {
                values.extend([Box::new(id) as Param<'a>, Box::new(envelope), Box::new(crc)])
            }
            _ => values.extend([
                Box::new(&self.ids) as Param<'a>,
                Box::new(&self.envelopes),
                Box::new(&self.crcs),
            ]),
        }
    }
}

fn push_asked<'a>(asked: &'a [(Approval, (Vec<u8>, u32))], values: &mut Vec<Param<'a>>) {
    let of = |pick: fn(&Approval) -> &str| asked.iter().map(|(a, _)| pick(a)).collect::<Vec<_>>();
    values.push(Box::new(of(|a| &a.id)));
    values.push(Box::new(of(|a| a.status.as_str())));
    values.push(Box::new(asked.iter().map(|(a, _)| a.created.0).collect::<Vec<_>>()));
    values.push(Box::new(asked.iter().map(|(a, _)| a.expires_at.0).collect::<Vec<_>>()));
    values.push(Box::new(asked.iter().map(|(_, (body, _))| &body[..]).collect::<Vec<_>>()));
    values.push(Box::new(asked.iter().map(|(_, (_, crc))| i64::from(*crc)).collect::<Vec<_>>()));
}

/// An event for the audit trail, with its payload as bytes.
#[derive(Debug)]
pub(super) struct PgEvent {
    pub(super) event: AuditEvent,
    pub(super) payload: (Vec<u8>, u32),
}

impl PgEvent {
    fn new(event: &AuditEvent) -> Result<PgEvent, StoreError> {
        Ok(PgEvent { payload: record::encode(&event.payload)?, event: event.clone() })
    }
}

fn push_audit<'a>(audit: &'a [PgEvent], values: &mut Vec<Param<'a>>) {
    match audit {
        [] => return,
        [PgEvent { event, payload: (payload, crc) }] => {
            values.push(Box::new(&event.correlation));
            values.push(Box::new(event.at.0));
            values.push(Box::new(&event.kind));
            values.push(Box::new(&event.source));
            values.push(Box::new(payload));
            values.push(Box::new(i64::from(*crc)));
            values.push(Box::new(event.send));
            return;
        }
        _ => {}
    }
    let of =
        |pick: fn(&AuditEvent) -> &str| audit.iter().map(|packed| pick(&packed.event)).collect::<Vec<_>>();
    values.push(Box::new(of(|event| &event.correlation)));
    values.push(Box::new(audit.iter().map(|packed| packed.event.at.0).collect::<Vec<_>>()));
    values.push(Box::new(of(|event| &event.kind)));
    values.push(Box::new(of(|event| &event.source)));
    values.push(Box::new(audit.iter().map(|packed| &packed.payload.0[..]).collect::<Vec<_>>()));
    values.push(Box::new(audit.iter().map(|packed| i64::from(packed.payload.1)).collect::<Vec<_>>()));
    values.push(Box::new(audit.iter().map(|packed| packed.event.send).collect::<Vec<_>>()));
}
