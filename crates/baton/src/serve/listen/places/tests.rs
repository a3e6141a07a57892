use axum::http::Version;

use super::super::activity::BusyGuard;
use super::*;
use crate::serve::network::Network;

/// Connections as the accept loop sees them.
struct House {
    places: ConnectionSlots,
    limits: ServeLimits,
    now: Instant,
    open: Vec<Open>,
}

struct Open {
    from: &'static str,
    given: SlotGrant,
    activity: Activity,
    busy: Option<BusyGuard>,
}

impl House {
    /// This many places, the reserve among them.
    fn new(most: usize) -> House {
        House {
            places: ConnectionSlots::new(most),
            limits: ServeLimits::default(),
            now: Instant::now(),
            open: Vec::new(),
        }
    }

    /// A newcomer; answers which place it got.
    fn comes(&mut self, from: &'static str) -> Option<SlotKind> {
        let activity = Activity::new();
        let given = self.places.give(from.parse().unwrap(), &activity, self.now, &self.limits)?;
        let kind = given.kind;
        self.open.push(Open { from, given, activity, busy: None });
        Some(kind)
    }

    /// The same, which begins a request.
    fn asks(&mut self, from: &'static str) -> Option<SlotKind> {
        let kind = self.comes(from)?;
        let open = self.open.last_mut().unwrap();
        open.busy = Some(open.activity.begins(Version::HTTP_11));
        Some(kind)
    }

    /// The connections of the list that were told to leave since the last call, and how.
    fn told(&mut self) -> Vec<(usize, Leave)> {
        let told = |(n, open): (usize, &mut Open)| Some((n, open.given.leave.try_recv().ok()?));
        self.open.iter_mut().enumerate().filter_map(told).collect()
    }

    /// How many connections an address still has.
    fn held(&self, from: &str) -> usize {
        let holds = |open: &&Open| open.from == from && self.places.open.contains_key(&open.given.id);
        self.open.iter().filter(holds).count()
    }
}

const A: &str = "192.0.2.1";
const B: &str = "192.0.2.2";
const C: &str = "192.0.2.3";

#[test]
fn one_address_may_have_all_places_while_nobody_else_wants_one() {
    let mut house = House::new(40);
    assert!((0..38).all(|_| house.asks(A) == Some(SlotKind::Regular)));
    assert_eq!([(); 3].map(|()| house.asks(A)), [Some(SlotKind::Reserve), Some(SlotKind::Reserve), None]);
    assert_eq!(house.told(), []);
    let ended = house.open[7].given.id;
    assert!(house.places.take_back(ended).is_some());
    assert_eq!(house.asks(A), Some(SlotKind::Regular));
}

#[test]
fn another_address_gets_its_share_and_no_more() {
    let mut house = House::new(42); // 40 and 2
    assert!((0..40).all(|_| house.asks(A).is_some()));
    assert!((0..20).all(|_| house.asks(B) == Some(SlotKind::Regular)));
    assert_eq!((house.held(A), house.held(B)), (20, 20));
    let youngest: Vec<_> = (20..40).map(|n| (n, Leave::Now)).collect();
    assert_eq!(house.told(), youngest, "those that were answered longest stay");
    assert_eq!(
        (house.asks(B), house.asks(A)),
        (Some(SlotKind::Reserve), Some(SlotKind::Reserve)),
        "both have their share"
    );
    assert!((0..13).all(|_| house.asks(C) == Some(SlotKind::Regular)));
    let held = [A, B, C].map(|from| house.held(from));
    assert!(held.iter().all(|held| (13..=15).contains(held)), "{held:?}");
}

#[test]
fn a_share_of_the_reserve_is_kept_for_others_too() {
    let mut house = House::new(80); // 76 and 4
    assert!((0..80).all(|_| house.asks(A).is_some()));
    for n in 0..40 {
        assert_eq!(
            house.asks(B),
            if n < 38 { Some(SlotKind::Regular) } else { Some(SlotKind::Reserve) },
            "{n}"
        );
    }
    assert_eq!((house.asks(A), house.asks(B)), (None, None));
}

#[test]
fn an_idle_connection_gives_way_to_anybody_the_longest_idle_first() {
    let mut house = House::new(16); // 15 and 1
    assert!((0..15).all(|_| house.asks(A).is_some()));
    for n in [4, 9, 2] {
        house.open[n].busy = None;
    }
    assert_eq!(
        [(); 4].map(|()| house.asks(A)),
        [Some(SlotKind::Regular), Some(SlotKind::Regular), Some(SlotKind::Regular), Some(SlotKind::Reserve)]
    );
    assert_eq!(house.told(), [2, 4, 9].map(|n| (n, Leave::Idle)));
    assert_eq!(house.asks(A), None);
}

#[test]
fn the_idle_connections_of_whoever_has_most_give_way_first() {
    let mut house = House::new(16);
    assert_eq!(house.asks(B), Some(SlotKind::Regular));
    assert!((0..14).all(|_| house.asks(A).is_some()));
    for n in [0, 5] {
        house.open[n].busy = None;
    }
    assert_eq!(house.asks(A), Some(SlotKind::Regular));
    assert_eq!(house.told(), [(5, Leave::Idle)]);
}

#[test]
fn one_that_was_idle_and_is_asked_again_stays() {
    let mut house = House::new(16);
    assert!((0..15).all(|_| house.asks(A).is_some()));
    for open in &mut house.open {
        open.busy = None;
    }
    assert_eq!(house.asks(A), Some(SlotKind::Regular)); // which has searched all of them
    for open in &mut house.open {
        open.busy = Some(open.activity.begins(Version::HTTP_11));
    }
    assert_eq!(house.told(), [(0, Leave::Idle)]);
    assert_eq!((house.asks(A), house.told()), (Some(SlotKind::Reserve), vec![]));
}

#[test]
fn a_connection_that_does_not_get_on_gives_way() {
    let mut house = House::new(16);
    assert!((0..15).all(|_| house.comes(A).is_some()));
    assert_eq!(house.asks(A), Some(SlotKind::Reserve), "they may be about to ask");
    house.now += house.limits.header_deadline / 10 + Duration::from_secs(1);
    assert_eq!((house.asks(A), house.told()), (Some(SlotKind::Regular), vec![(0, Leave::Now)]));
}

#[test]
fn it_is_not_looked_again_at_once_where_nobody_gave_way() {
    let mut house = House::new(16);
    assert!((0..16).all(|_| house.asks(A).is_some()));
    assert_eq!(house.asks(A), None);
    house.open[3].busy = None;
    assert_eq!(house.asks(A), None);
    house.now += LOOK_EVERY;
    assert_eq!((house.asks(A), house.told()), (Some(SlotKind::Regular), vec![(3, Leave::Idle)]));
}

#[test]
fn proxies_have_no_share() {
    let mut house = House::new(16);
    house.limits.proxies = vec![Network::configured("192.0.2.1").unwrap()];
    assert!((0..15).all(|_| house.asks(A).is_some()));
    assert_eq!((house.asks(B), house.asks(B)), (Some(SlotKind::Reserve), None), "they keep what they have");
    let mut house = House { limits: house.limits, ..House::new(16) };
    assert!((0..15).all(|_| house.asks(B).is_some()));
    assert!((0..8).all(|_| house.asks(A) == Some(SlotKind::Regular)));
    assert_eq!((house.held(A), house.held(B)), (8, 7), "and take what others have beyond their share");
}

#[test]
fn a_network_of_ipv6_is_one_source() {
    let mut house = House::new(16);
    let of_one = ["2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:1"];
    assert!((0..15).all(|n| house.asks(of_one[n % 3]).is_some()));
    assert!((0..7).all(|_| house.asks("2001:db8:0:1::1") == Some(SlotKind::Regular)));
    assert_eq!(
        (house.asks(of_one[0]), house.asks("::ffff:192.0.2.1")),
        (Some(SlotKind::Reserve), Some(SlotKind::Regular))
    );
}
