//! Networks: an address, or all addresses with a common prefix (`10.0.0.0/8`).

use std::net::IpAddr;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    /// The length of the prefix.
    bits: u8,
}

impl Network {
    /// Parses a network from the settings: `127.0.0.1`, `10.0.0.0/8`, `fd00::/8`. Bits behind the prefix have to be
    /// zero, so that a slip of the pen is no other network.
    pub(crate) fn configured(text: &str) -> Option<Network> {
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
        (leading(address, bits) == address).then_some(Network { address, bits })
    }

    /// Whether an address lies in it. An IPv4 address that is written as IPv6 is that IPv4 address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && leading(address, self.bits) == self.address
    }
}

/// The address with all but its first bits cleared.
pub(crate) fn leading(address: IpAddr, bits: u8) -> IpAddr {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(it) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or_default();
            IpAddr::V4((it.to_bits() & mask).into())
        }
        IpAddr::V6(it) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or_default();
            IpAddr::V6((it.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_address_or_all_that_begin_alike() {
        let is_in = |network: &str, address: &str| {
            Network::configured(network).unwrap().contains(address.parse().unwrap())
        };
        for (network, address, expected) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "192.0.2.7", true),
            ("0.0.0.0/0", "::1", false),
            ("::1", "::1", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "2001:db8::1", true),
        ] {
            assert_eq!(is_in(network, address), expected, "{address} in {network}");
        }
    }

    #[test]
    fn what_is_no_network_is_none() {
        for text in
            ["", "localhost", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.1/8", "10.0.0"]
        {
            assert_eq!(Network::configured(text), None, "{text}");
        }
    }
}
