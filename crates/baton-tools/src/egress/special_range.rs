//! Ranges of addresses that are not the public internet, to which a stranger must not send us.
//!
//! Everything is refused that is not known to be public: of IPv6 that is all outside `2000::/3`. Addresses that
//! carry another address inside (mapped, translated, tunnelled) are refused with any content: no public address
//! needs to be written that way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range that is not the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpecialRange {
    /// This computer.
    Loopback,
    /// A private network (RFC 1918).
    Private,
    /// Shared by the customers of a provider (RFC 6598).
    Shared,
    /// A private network of IPv6 (RFC 4193, and the older site-local addresses).
    UniqueLocal,
    /// The machines on the same link.
    LinkLocal,
    /// The metadata services where clouds hand their machines credentials.
    Metadata,
    /// "This network", which systems take for this computer.
    Unspecified,
    /// Groups of machines.
    Multicast,
    /// An IPv6 address that stands for an IPv4 address: mapped, NAT64, 6to4, Teredo, ISATAP.
    Translated,
    /// Kept for documentation, tests, protocols or the future.
    Reserved,
}

/// The metadata services of clouds, which hand out credentials. Only some of these lie in a range that is refused
/// anyway.
const METADATA: [IpAddr; 10] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)),
];

impl SpecialRange {
    /// The range of an address; none if it is public.
    pub fn containing(address: IpAddr) -> Option<SpecialRange> {
        if METADATA.contains(&address) {
            return Some(SpecialRange::Metadata);
        }
        match address {
            IpAddr::V4(address) => range_v4(address),
            IpAddr::V6(address) => range_v6(address),
        }
    }

    /// Whether a name that the operator excepted may resolve to this range. For the rest, not even the operator's own
    /// name server is followed: an exception for one of those addresses has to name the address itself.
    pub(super) fn may_be_excepted_by_name(self) -> bool {
        match self {
            SpecialRange::Loopback
            | SpecialRange::Private
            | SpecialRange::Shared
            | SpecialRange::UniqueLocal
            | SpecialRange::Reserved => true,
            SpecialRange::LinkLocal
            | SpecialRange::Metadata
            | SpecialRange::Unspecified
            | SpecialRange::Multicast
            | SpecialRange::Translated => false,
        }
    }

    /// Its name in the test corpus and in logs.
    pub fn code(self) -> &'static str {
        match self {
            SpecialRange::Loopback => "loopback",
            SpecialRange::Private => "private",
            SpecialRange::Shared => "shared",
            SpecialRange::UniqueLocal => "unique_local",
            SpecialRange::LinkLocal => "link_local",
            SpecialRange::Metadata => "metadata",
            SpecialRange::Unspecified => "unspecified",
            SpecialRange::Multicast => "multicast",
            SpecialRange::Translated => "translated",
            SpecialRange::Reserved => "reserved",
        }
    }

    /// Why a host in this range is refused, in words.
    pub(super) fn message(self) -> &'static str {
        match self {
            SpecialRange::Loopback => "it leads to this computer itself",
            SpecialRange::Private | SpecialRange::UniqueLocal => "it leads into a private network",
            SpecialRange::Shared => "it leads into the network of an internet provider",
            SpecialRange::LinkLocal => "it leads to the local link",
            SpecialRange::Metadata => "it leads to a cloud's metadata service",
            SpecialRange::Unspecified => "it leads to no particular computer",
            SpecialRange::Multicast => "it leads to many computers at once",
            SpecialRange::Translated => "it leads to an IPv4 address in the disguise of IPv6",
            SpecialRange::Reserved => "it leads to a reserved range of addresses",
        }
    }
}

fn range_v4(address: Ipv4Addr) -> Option<SpecialRange> {
    let range = match address.octets() {
        [0, ..] => SpecialRange::Unspecified,
        [127, ..] => SpecialRange::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => SpecialRange::Private,
        [100, 64..=127, ..] => SpecialRange::Shared,
        [169, 254, ..] => SpecialRange::LinkLocal,
        [224..=239, ..] | [255, 255, 255, 255] => SpecialRange::Multicast,
        [192, 0, 0 | 2, _] | [192, 88, 99, _] => SpecialRange::Reserved,
        [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => SpecialRange::Reserved,
        [240..=255, ..] => SpecialRange::Reserved,
        _ => return None,
    };
    Some(range)
}

fn range_v6(address: Ipv6Addr) -> Option<SpecialRange> {
    let range = match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => SpecialRange::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => SpecialRange::Loopback,
        // IPv4-compatible, IPv4-mapped, and both prefixes of SIIT and NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => SpecialRange::Translated,
        [0x64, 0xff9b, ..] => SpecialRange::Translated,
        // 6to4, Teredo, and an ISATAP interface behind any prefix.
        [0x2002, ..] | [0x2001, 0, ..] => SpecialRange::Translated,
        [.., 0 | 0x200, 0x5efe, _, _] => SpecialRange::Translated,
        [0xff00..=0xffff, ..] => SpecialRange::Multicast,
        [0xfe80..=0xfebf, ..] => SpecialRange::LinkLocal,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => SpecialRange::UniqueLocal,
        // Protocol assignments and documentation, inside the public range.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => SpecialRange::Reserved,
        [0x2000..=0x3fff, ..] => return None,
        _ => SpecialRange::Reserved,
    };
    Some(range)
}

#[cfg(test)]
mod tests;
