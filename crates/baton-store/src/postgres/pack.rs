//! A transition as values of its statement, encoded by its caller and not by whoever writes.
//!
//! The order in which values are pushed here is the order in which [`super::statement`] numbers them.

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::run::{Approval, RUN_VERSION};
use baton_core::time::Timestamp;
use uuid::Uuid;

use super::Param;
use super::group::Member;
use super::row;
use super::statement::{Form, Halt, Origin, Parts};
use super::tree::stored;
use crate::error::StoreError;
use crate::record;
use crate::runs::Fence;
use crate::service::AuditEvent;
use crate::transition::{NewRun, Rest, Transition};

/// A transition as bytes and numbers.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) run: RunId,
    pub(super) thread: ThreadId,
    pub(super) lane: u32,
    pub(super) budget: Vec<u8>,
    pub(super) fence: Fence,
    pub(super) at: Timestamp,
    pub(super) rest: Rest,
    tenant: Tenant,
    frame: String,
    head: i64,
    inbox_read: u32,
    progress: bool,
    entries: Entries,
    /// The place of the first entry with untrusted content.
    untrusted: Option<i64>,
    body: (Vec<u8>, u32),
    asked: Vec<(Approval, (Vec<u8>, u32))>,
    audit: Vec<PackedEvent>,
}

/// Entries, column by column.
#[derive(Debug, Default, Clone)]
struct Entries {
    ids: Vec<Uuid>,
    envelopes: Vec<Vec<u8>>,
    crcs: Vec<i64>,
}

impl Packed {
    pub(super) fn new(tenant: &Tenant, transition: &Transition) -> Result<Packed, StoreError> {
        let Transition { run, checkpoint, .. } = transition;
        let mut entries = Entries::default();
        for new in &transition.entries {
            let envelope = crate::envelope::encode(&new.entry, new.at)?;
            entries.ids.push(new.id.0);
            entries.crcs.push(i64::from(crc32fast::hash(&envelope)));
            entries.envelopes.push(envelope);
        }
        let first = checkpoint.head - transition.entries.len() as i64 + 1;
        let untrusted = transition.entries.iter().position(|new| new.entry.is_untrusted());
        let asked = |approval: &Approval| record::encode(approval).map(|bytes| (approval.clone(), bytes));
        Ok(Packed {
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
            untrusted: untrusted.map(|nth| first + nth as i64),
            body: record::encode(checkpoint)?,
            asked: transition.asked.iter().map(asked).collect::<Result<_, _>>()?,
            audit: transition.audit.iter().map(PackedEvent::new).collect::<Result<_, _>>()?,
        })
    }

    /// Whether a run can begin with it in one statement.
    pub(super) fn is_plain(&self) -> bool {
        self.rest == Rest::Running
            && self.untrusted.is_none()
            && self.asked.is_empty()
            && !self.entries.ids.is_empty()
    }

    fn parts(&self) -> Parts {
        Parts {
            entries: !self.entries.ids.is_empty(),
            untrusted: self.untrusted.is_some(),
            asked: !self.asked.is_empty(),
            audit: !self.audit.is_empty(),
            ..Parts::default()
        }
    }

    /// The statement that advances the run.
    pub(super) fn advance(self) -> (Form, Vec<Param>) {
        let parts = self.parts();
        let halt = match self.rest {
            Rest::Running => Halt::No,
            Rest::Suspended { .. } => Halt::Suspended,
            Rest::Ended(_) => Halt::Ended,
        };
        let mut values: Vec<Param> = vec![
            Box::new(self.tenant.as_str().to_owned()),
            Box::new(self.run.0),
            Box::new(self.fence.epoch as i32),
            Box::new(self.fence.step as i32),
            Box::new(self.fence.last_seq as i64),
            Box::new(self.head),
            Box::new(self.budget),
            Box::new(self.progress),
            Box::new(self.fence.inbox.map(|inbox| inbox as i32)),
            Box::new(self.fence.events as i64),
            Box::new(self.frame),
            Box::new(self.body.0),
            Box::new(i64::from(self.body.1)),
        ];
        if parts.entries || parts.untrusted || halt == Halt::Ended {
            values.push(Box::new(self.thread.as_str().to_owned()));
            values.push(Box::new(stored(self.lane)));
        }
        if parts.entries {
            self.entries.push_to(&mut values);
        }
        if let Some(index) = self.untrusted {
            values.push(Box::new(index));
        }
        if parts.asked {
            push_asked(self.asked, &mut values);
        }
        if parts.audit {
            push_audit(self.audit, &mut values);
        }
        match self.rest {
            Rest::Running => {}
            Rest::Suspended { wake_at } => {
                values.push(Box::new(wake_at.0));
                values.push(Box::new(self.inbox_read as i32));
            }
            Rest::Ended(status) => {
                values.push(Box::new(row::stored(status)));
                values.push(Box::new(self.at.0));
            }
        }
        (Form::Advance(parts, halt), values)
    }

    /// The statement that begins a run with it, as a member of a group. It brings the definition along, unless
    /// that is known to be there.
    pub(super) fn begin(&self, new: &NewRun, lane: u32, definition: Option<&(Vec<u8>, u32)>) -> Member {
        let parts = Parts { key: new.key.is_some(), definition: definition.is_some(), ..self.parts() };
        let text = |text: &str| -> Param { Box::new(text.to_owned()) };
        let mut values: Vec<Param> = vec![
            text(self.tenant.as_str()),
            Box::new(self.run.0),
            text(self.thread.as_str()),
            text(new.branch.as_str()),
            Box::new(stored(lane)),
            Box::new(new.owner.0),
            Box::new(self.fence.last_seq as i64),
            Box::new(self.head),
            text(&new.definition.hash),
            Box::new(RUN_VERSION as i32),
            Box::new(self.budget.clone()),
            Box::new(new.at.0),
            Box::new(new.metadata.to_string().into_bytes()),
            text(&self.frame),
            Box::new(self.body.0.clone()),
            Box::new(i64::from(self.body.1)),
        ];
        let origin = match &new.new_thread {
            Some(thread) => {
                values.push(Box::new(thread.at.0));
                values.push(Box::new(thread.ttl_at.map(|at| at.0)));
                values.push(Box::new(thread.meta.to_string().into_bytes()));
                Origin::Fresh
            }
            None => {
                values.push(Box::new(new.expected_head));
                Origin::Branch
            }
        };
        if parts.entries {
            self.entries.clone().push_to(&mut values);
        }
        if parts.audit {
            push_audit(self.audit.clone(), &mut values);
        }
        if let Some(key) = &new.key {
            values.extend([text(&key.route), text(&key.key), text(&key.body_hash)]);
            values.push(Box::new(key.expires_at.0));
        }
        if let Some((body, crc)) = definition {
            values.push(Box::new(body.clone()));
            values.push(Box::new(i64::from(*crc)));
        }
        Member::new(Form::Begin(origin, parts), self.run, values)
    }
}

impl Entries {
    fn push_to(self, values: &mut Vec<Param>) {
        values.push(Box::new(self.ids));
        values.push(Box::new(self.envelopes));
        values.push(Box::new(self.crcs));
    }
}

fn push_asked(asked: Vec<(Approval, (Vec<u8>, u32))>, values: &mut Vec<Param>) {
    let of = |pick: fn(&Approval) -> String| asked.iter().map(|(a, _)| pick(a)).collect::<Vec<_>>();
    let crcs: Vec<i64> = asked.iter().map(|(_, (_, crc))| i64::from(*crc)).collect();
    values.push(Box::new(of(|a| a.id.clone())));
    values.push(Box::new(of(|a| a.status.as_str().to_owned())));
    values.push(Box::new(asked.iter().map(|(a, _)| a.created.0).collect::<Vec<_>>()));
    values.push(Box::new(asked.iter().map(|(a, _)| a.expires_at.0).collect::<Vec<_>>()));
    values.push(Box::new(asked.into_iter().map(|(_, (body, _))| body).collect::<Vec<_>>()));
    values.push(Box::new(crcs));
}

/// An event for the audit trail, with its payload as bytes.
#[derive(Debug, Clone)]
struct PackedEvent {
    event: AuditEvent,
    payload: (Vec<u8>, u32),
}

impl PackedEvent {
    fn new(event: &AuditEvent) -> Result<PackedEvent, StoreError> {
        Ok(PackedEvent { payload: record::encode(&event.payload)?, event: event.clone() })
    }
}

fn push_audit(audit: Vec<PackedEvent>, values: &mut Vec<Param>) {
    let of = |pick: fn(&AuditEvent) -> &str| {
        audit.iter().map(|packed| pick(&packed.event).to_owned()).collect::<Vec<_>>()
    };
    let send: Vec<bool> = audit.iter().map(|packed| packed.event.send).collect();
    let crcs: Vec<i64> = audit.iter().map(|packed| i64::from(packed.payload.1)).collect();
    values.push(Box::new(of(|event| &event.correlation)));
    values.push(Box::new(audit.iter().map(|packed| packed.event.at.0).collect::<Vec<_>>()));
    values.push(Box::new(of(|event| &event.kind)));
    values.push(Box::new(of(|event| &event.source)));
    values.push(Box::new(audit.into_iter().map(|packed| packed.payload.0).collect::<Vec<_>>()));
    values.push(Box::new(crcs));
    values.push(Box::new(send));
}
