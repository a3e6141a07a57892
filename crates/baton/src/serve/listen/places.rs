//! Connection slots: how many are taken, which address each counts for, and which gives way when none is free.
//!
//! Some places are kept back (the *reserve*), for `/health` and cancels. While there is room every connection gets a
//! place, with no limit per address. Once there is none, a newcomer gets the place of a connection whose peer loses
//! nothing or little: one that is idle, or that makes no progress. If there is no such connection, and the newcomer's
//! address has less than its share while another has more than its own, the address with the most gives one up. A share
//! is the number of places divided by the addresses that have connections. So shares bind only while a newcomer waits,
//! and an address that takes everything keeps no other out. Addresses of proxies (`serve.proxies`), behind which there
//! are many callers, have no share.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::activity::{Activity, ConnectionState};
use crate::serve::limits::ServeLimits;
use crate::serve::network::leading;

/// How long the search for a connection that may give way pauses after it found none: a search costs time for each
/// connection that is open, and a newcomer costs its sender nothing.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many connections one search finds, and how many of a greedy address are checked for the one that is missed
/// least.
const LOOKED_AT: usize = 64;
/// One household or machine has a network of IPv6 addresses.
const BITS_V6: u8 = 64;

/// How a connection is closed to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It is closed after the request in progress is answered.
    Idle,
    /// It is closed at once.
    Now,
}

/// The requests that a connection may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotKind {
    /// Everything.
    Regular,
    /// `/health` and cancels.
    Reserve,
}

/// A place that was given to a connection.
#[derive(Debug)]
pub(super) struct SlotGrant {
    pub(super) id: u64,
    pub(super) kind: SlotKind,
    /// Receives the order to make room.
    pub(super) leave: oneshot::Receiver<Leave>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    open: HashMap<u64, Seat>,
    next: u64,
    regular: Pool,
    reserve: Pool,
}

/// The places of one kind.
#[derive(Debug)]
struct Pool {
    most: usize,
    /// The places that are taken.
    taken: BTreeSet<u64>,
    /// The places that each address has taken, without those of proxies.
    sources: HashMap<IpAddr, BTreeSet<u64>>,
    /// Connections that could give way at the last search, the best of them last.
    spare: Vec<u64>,
    /// When the next search may begin, if the last one found none.
    look: Option<Instant>,
}

#[derive(Debug)]
struct Seat {
    kind: SlotKind,
    source: Option<IpAddr>,
    activity: Activity,
    leave: oneshot::Sender<Leave>,
}

/// How many of all places are kept for `/health` and cancels.
fn reserve(most: usize) -> usize {
    (most / 20).clamp(1, 64)
}

/// The address that a connection counts for; none for a proxy.
fn source(peer: IpAddr, limits: &ServeLimits) -> Option<IpAddr> {
    let peer = peer.to_canonical();
    let is_proxy = limits.proxies.iter().any(|proxy| proxy.contains(peer));
    (!is_proxy).then(|| if peer.is_ipv6() { leading(peer, BITS_V6) } else { peer })
}

impl Pool {
    fn new(most: usize) -> Pool {
        Pool { most, taken: BTreeSet::new(), sources: HashMap::new(), spare: Vec::new(), look: None }
    }

    fn add(&mut self, id: u64, source: Option<IpAddr>) {
        self.taken.insert(id);
        if let Some(source) = source {
            self.sources.entry(source).or_default().insert(id);
        }
    }

    fn remove(&mut self, id: u64, source: Option<IpAddr>) {
        self.taken.remove(&id);
        if let Some(source) = source
            && let Some(ids) = self.sources.get_mut(&source)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.sources.remove(&source);
            }
        }
    }

    /// How many connections an address has.
    fn held(&self, source: Option<IpAddr>) -> usize {
        source.and_then(|source| self.sources.get(&source)).map_or(0, BTreeSet::len)
    }

    /// The connections of the address that has most of them, if that is more than its share while the newcomer has less
    /// than its own.
    fn beyond_its_share(&self, newcomer: Option<IpAddr>) -> Option<&BTreeSet<u64>> {
        let held = self.held(newcomer);
        let share = (self.most / (self.sources.len() + usize::from(held == 0))).max(1);
        let greediest = self.sources.values().max_by_key(|ids| ids.len())?;
        (held < share && greediest.len() > share).then_some(greediest)
    }
}

impl ConnectionSlots {
    /// This many places, all of them free.
    pub(super) fn new(most: usize) -> ConnectionSlots {
        let reserve = reserve(most);
        let (regular, reserve) = (Pool::new(most.saturating_sub(reserve)), Pool::new(reserve));
        ConnectionSlots { open: HashMap::new(), next: 0, regular, reserve }
    }

    /// Gives a place to a connection that was just accepted; none if all are taken and no connection gives way.
    pub(super) fn give(
        &mut self,
        peer: IpAddr,
        activity: &Activity,
        now: Instant,
        limits: &ServeLimits,
    ) -> Option<SlotGrant> {
        let source = source(peer, limits);
        let kind = [SlotKind::Regular, SlotKind::Reserve]
            .into_iter()
            .find(|kind| self.has_room(*kind) || self.make_room(*kind, source, now, limits))?;
        let (sender, leave) = oneshot::channel();
        let id = self.next;
        self.next += 1;
        self.pool_mut(kind).add(id, source);
        self.open.insert(id, Seat { kind, source, activity: activity.clone(), leave: sender });
        Some(SlotGrant { id, kind, leave })
    }

    /// Frees the place of a connection that has ended, or makes room.
    pub(super) fn take_back(&mut self, id: u64) -> Option<oneshot::Sender<Leave>> {
        let seat = self.open.remove(&id)?;
        self.pool_mut(seat.kind).remove(id, seat.source);
        Some(seat.leave)
    }

    fn pool(&self, kind: SlotKind) -> &Pool {
        match kind {
            SlotKind::Regular => &self.regular,
            SlotKind::Reserve => &self.reserve,
        }
    }

    fn pool_mut(&mut self, kind: SlotKind) -> &mut Pool {
        match kind {
            SlotKind::Regular => &mut self.regular,
            SlotKind::Reserve => &mut self.reserve,
        }
    }

    fn has_room(&self, kind: SlotKind) -> bool {
        let pool = self.pool(kind);
        pool.taken.len() < pool.most
    }

    /// Makes a connection of this kind give way; false if there is none.
    fn make_room(
        &mut self,
        kind: SlotKind,
        newcomer: Option<IpAddr>,
        now: Instant,
        limits: &ServeLimits,
    ) -> bool {
        let found = self.spare(kind, now, limits).or_else(|| {
            let id = self.least_missed(kind, newcomer, now, limits)?;
            Some((id, Leave::Now))
        });
        let Some((id, how)) = found else { return false };
        if let Some(leave) = self.take_back(id) {
            let _ = leave.send(how); // it may have ended by itself meanwhile
        }
        true
    }

    /// A connection whose peer loses nothing or little: of the address that has the most connections, the one that was
    /// kept idle for longest.
    fn spare(&mut self, kind: SlotKind, now: Instant, limits: &ServeLimits) -> Option<(u64, Leave)> {
        if self.pool(kind).look.is_some_and(|look| now < look) {
            return None;
        }
        let known = self.known_spare(kind, now, limits);
        if known.is_some() {
            return known;
        }
        self.pool_mut(kind).spare = self.look(kind, now, limits);
        let found = self.known_spare(kind, now, limits);
        self.pool_mut(kind).look = found.is_none().then(|| now + LOOK_EVERY);
        found
    }

    /// The best connection that the last search found and that still may give way.
    fn known_spare(&mut self, kind: SlotKind, now: Instant, limits: &ServeLimits) -> Option<(u64, Leave)> {
        while let Some(id) = self.pool_mut(kind).spare.pop() {
            let standing = self.open.get(&id).map(|seat| seat.activity.standing(now, limits));
            match standing {
                Some(ConnectionState::Idle(_)) => return Some((id, Leave::Idle)),
                Some(ConnectionState::Stuck) => return Some((id, Leave::Now)),
                _ => {}
            }
        }
        None
    }

    fn look(&self, kind: SlotKind, now: Instant, limits: &ServeLimits) -> Vec<u64> {
        let pool = self.pool(kind);
        let rank = |id: &u64| {
            let seat = self.open.get(id)?;
            let since = match seat.activity.standing(now, limits) {
                ConnectionState::Idle(since) => Some(since),
                ConnectionState::Stuck => None,
                ConnectionState::Arriving | ConnectionState::Busy => return None,
            };
            Some((Reverse(pool.held(seat.source)), since.is_none(), since, *id))
        };
        let mut ranked: Vec<_> = pool.taken.iter().filter_map(rank).collect();
        ranked.sort_unstable();
        ranked.into_iter().take(LOOKED_AT).rev().map(|(.., id)| id).collect()
    }

    /// The connection that an address above its share gives up: the youngest, if possible one that answers nothing yet.
    fn least_missed(
        &self,
        kind: SlotKind,
        newcomer: Option<IpAddr>,
        now: Instant,
        limits: &ServeLimits,
    ) -> Option<u64> {
        let pool = self.pool(kind);
        let ids = pool.beyond_its_share(newcomer)?;
        let answers_nothing = |id: &&u64| {
            self.open.get(id).is_some_and(|seat| seat.activity.standing(now, limits) != ConnectionState::Busy)
        };
        ids.iter().rev().take(LOOKED_AT).find(answers_nothing).or(ids.last()).copied()
    }
}

#[cfg(test)]
mod tests;
