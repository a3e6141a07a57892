//! Wrong tokens, counted per address that sends them. An address that sends too many has to wait, so that no
//! attacker tries tokens at the speed of the machine. A known token is never refused here: others behind the same
//! address go on.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::serve::problem::{Problem, ProblemCode};

/// How many wrong tokens an address may send at once. A page that was opened with an old token may send half as many.
const BURST: f64 = 100.0;
/// How many more it may send each second.
const PER_SECOND: f64 = 1.0;
/// How many addresses are counted apart. Further ones share one allowance.
const MOST_ADDRESSES: usize = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WrongTokens {
    /// The allowance that each address has left. An address with its full allowance is forgotten.
    left: Mutex<HashMap<IpAddr, Left>>,
}

#[derive(Debug, Clone, Copy)]
struct Left {
    tokens: f64,
    at: Instant,
}

impl Left {
    fn now(self, now: Instant) -> f64 {
        (self.tokens + now.duration_since(self.at).as_secs_f64() * PER_SECOND).min(BURST)
    }
}

impl WrongTokens {
    /// Counts one wrong token; refuses it if there were too many.
    pub(crate) fn count(&self, peer: IpAddr, now: Instant) -> Result<(), Problem> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut source = network(peer);
        if left.len() >= MOST_ADDRESSES && !left.contains_key(&source) {
            left.retain(|_, it| it.now(now) < BURST);
            if left.len() >= MOST_ADDRESSES {
                source = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            }
        }
        let it = left.entry(source).or_insert(Left { tokens: BURST, at: now });
        *it = Left { tokens: it.now(now), at: now };
        if it.tokens >= 1.0 {
            it.tokens -= 1.0;
            return Ok(());
        }
        let seconds = ((1.0 - it.tokens) / PER_SECOND).ceil().max(1.0) as u64;
        let detail = "too many tokens that are not known came from this address: send one that is, or wait";
        Err(Problem::new(ProblemCode::RateLimited, detail).after(seconds))
    }
}

/// The network that an address is counted for: an IPv6 user has 2⁶⁴ addresses.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_address_may_send_a_hundred_wrong_tokens_and_one_a_second() {
        let (wrong, began) = (WrongTokens::default(), Instant::now());
        let count = |peer: &str, ms| {
            let counted = wrong.count(peer.parse().unwrap(), began + Duration::from_millis(ms));
            counted.map_err(|problem| (problem.code, problem.retry_after))
        };
        assert!((0..100).all(|_| count("192.0.2.1", 0).is_ok()));
        let refused = Err((ProblemCode::RateLimited, Some(1)));
        assert_eq!(
            [0, 999, 1000, 1001, 3000, 3000].map(|ms| count("192.0.2.1", ms)),
            [refused, refused, Ok(()), refused, Ok(()), Ok(()),].map(|it: Result<(), _>| it)
        );
        assert_eq!([count("192.0.2.2", 3000), count("::ffff:192.0.2.2", 3000)], [Ok(()), Ok(())]);
        assert_eq!(wrong.left.lock().unwrap().len(), 2);
    }

    #[test]
    fn everybody_with_one_prefix_is_one_source() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        let peer = |n: u128| IpAddr::V6(Ipv6Addr::from((0x2001_0db8_u128 << 96) + n));
        assert!((0..100).all(|n| wrong.count(peer(n), now).is_ok()));
        assert!(wrong.count(peer(1 << 63), now).is_err());
        assert!(wrong.count(peer(1 << 64), now).is_ok());
    }

    #[test]
    fn however_many_addresses_there_are_few_are_kept() {
        let (wrong, began) = (WrongTokens::default(), Instant::now());
        let peer = |n: u32| IpAddr::V4(Ipv4Addr::from(n));
        let most = u32::try_from(MOST_ADDRESSES).unwrap();
        let refused = (1..=most + 200).filter(|n| wrong.count(peer(*n), began).is_err()).count();
        assert_eq!((refused, wrong.left.lock().unwrap().len()), (100, MOST_ADDRESSES + 1));
        let later = began + Duration::from_secs(101);
        assert!(wrong.count(peer(u32::MAX), later).is_ok());
        assert_eq!(wrong.left.lock().unwrap().len(), 1, "those that may send everything again are forgotten");
    }
}
