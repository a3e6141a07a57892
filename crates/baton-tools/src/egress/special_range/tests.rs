use super::*;
use proptest::prelude::*;

fn at(text: &str) -> Option<SpecialRange> {
    SpecialRange::containing(text.parse().unwrap())
}

/// The first and the last address of each range, and the neighbours on either side.
#[test]
fn ranges_begin_and_end_where_they_should() {
    let table = [
        ("0.0.0.0", Some(SpecialRange::Unspecified)),
        ("0.255.255.255", Some(SpecialRange::Unspecified)),
        ("1.0.0.0", None),
        ("9.255.255.255", None),
        ("10.0.0.0", Some(SpecialRange::Private)),
        ("10.255.255.255", Some(SpecialRange::Private)),
        ("11.0.0.0", None),
        ("100.63.255.255", None),
        ("100.64.0.0", Some(SpecialRange::Shared)),
        ("100.127.255.255", Some(SpecialRange::Shared)),
        ("100.128.0.0", None),
        ("126.255.255.255", None),
        ("127.0.0.0", Some(SpecialRange::Loopback)),
        ("127.255.255.255", Some(SpecialRange::Loopback)),
        ("128.0.0.0", None),
        ("168.63.129.16", Some(SpecialRange::Metadata)),
        ("168.63.129.17", None),
        ("169.253.255.255", None),
        ("169.254.0.0", Some(SpecialRange::LinkLocal)),
        ("169.254.169.254", Some(SpecialRange::Metadata)),
        ("169.255.0.0", None),
        ("172.15.255.255", None),
        ("172.16.0.0", Some(SpecialRange::Private)),
        ("172.31.255.255", Some(SpecialRange::Private)),
        ("172.32.0.0", None),
        ("192.0.0.1", Some(SpecialRange::Reserved)),
        ("192.0.0.192", Some(SpecialRange::Metadata)),
        ("192.0.1.0", None),
        ("192.0.2.255", Some(SpecialRange::Reserved)),
        ("192.88.99.1", Some(SpecialRange::Reserved)),
        ("192.167.255.255", None),
        ("192.168.0.0", Some(SpecialRange::Private)),
        ("192.169.0.0", None),
        ("198.17.255.255", None),
        ("198.18.0.0", Some(SpecialRange::Reserved)),
        ("198.19.255.255", Some(SpecialRange::Reserved)),
        ("198.20.0.0", None),
        ("198.51.100.7", Some(SpecialRange::Reserved)),
        ("203.0.113.7", Some(SpecialRange::Reserved)),
        ("223.255.255.255", None),
        ("224.0.0.0", Some(SpecialRange::Multicast)),
        ("239.255.255.255", Some(SpecialRange::Multicast)),
        ("240.0.0.0", Some(SpecialRange::Reserved)),
        ("255.255.255.255", Some(SpecialRange::Multicast)),
        ("::", Some(SpecialRange::Unspecified)),
        ("::1", Some(SpecialRange::Loopback)),
        ("::2", Some(SpecialRange::Translated)),
        ("::7f00:1", Some(SpecialRange::Translated)),
        ("::ffff:8.8.8.8", Some(SpecialRange::Translated)),
        ("::ffff:0:127.0.0.1", Some(SpecialRange::Translated)),
        ("64:ff9b::7f00:1", Some(SpecialRange::Translated)),
        ("64:ff9b:1::7f00:1", Some(SpecialRange::Translated)),
        ("100::1", Some(SpecialRange::Reserved)),
        ("1fff:ffff::", Some(SpecialRange::Reserved)),
        ("2000::1", None),
        ("2001::1", Some(SpecialRange::Translated)),
        ("2001:1ff::1", Some(SpecialRange::Reserved)),
        ("2001:200::1", None),
        ("2001:db8::1", Some(SpecialRange::Reserved)),
        ("2001:db9::1", None),
        ("2002:7f00:1::", Some(SpecialRange::Translated)),
        ("2003::1", None),
        ("2606:4700::5efe:7f00:1", Some(SpecialRange::Translated)),
        ("2606:4700::200:5efe:7f00:1", Some(SpecialRange::Translated)),
        ("2606:4700::1111", None),
        ("3fff:fff::1", Some(SpecialRange::Reserved)),
        ("3fff:1000::1", None),
        ("4000::1", Some(SpecialRange::Reserved)),
        ("5f00::1", Some(SpecialRange::Reserved)),
        ("fbff::1", Some(SpecialRange::Reserved)),
        ("fc00::1", Some(SpecialRange::UniqueLocal)),
        ("fd00:ec2::254", Some(SpecialRange::Metadata)),
        ("fdff::1", Some(SpecialRange::UniqueLocal)),
        ("fe00::1", Some(SpecialRange::Reserved)),
        ("fe80::1", Some(SpecialRange::LinkLocal)),
        ("febf::1", Some(SpecialRange::LinkLocal)),
        ("fec0::1", Some(SpecialRange::UniqueLocal)),
        ("ff02::1", Some(SpecialRange::Multicast)),
    ];
    for (text, expected) in table {
        assert_eq!(at(text), expected, "{text}");
    }
}

proptest! {
    /// An address that the standard library calls special is never public here. (The converse does not hold.)
    #[test]
    fn addresses_that_the_standard_library_calls_special_are_refused(bits: u32) {
        let address = Ipv4Addr::from(bits);
        let special = address.is_loopback() || address.is_private() || address.is_link_local()
            || address.is_broadcast() || address.is_documentation() || address.is_multicast()
            || address.is_unspecified();
        prop_assert!(!special || SpecialRange::containing(address.into()).is_some());
    }

    /// No way of putting an IPv4 address into an IPv6 address is public.
    #[test]
    fn an_ipv4_address_inside_ipv6_is_never_public(bits: u32, subnet: u16) {
        let [a, b] = [(bits >> 16) as u16, bits as u16];
        let forms = [
            [0, 0, 0, 0, 0, 0, a, b],
            [0, 0, 0, 0, 0, 0xffff, a, b],
            [0, 0, 0, 0, 0xffff, 0, a, b],
            [0x64, 0xff9b, 0, 0, 0, 0, a, b],
            [0x64, 0xff9b, 1, subnet, 0, 0, a, b],
            [0x2002, a, b, subnet, 0, 0, 0, 1],
            [0x2001, 0, a, b, subnet, 0, !a, !b],
            [0x2606, 0x4700, subnet, 0, 0, 0x5efe, a, b],
            [0x2606, 0x4700, subnet, 0, 0x200, 0x5efe, a, b],
        ];
        for form in forms {
            prop_assert!(SpecialRange::containing(Ipv6Addr::from(form).into()).is_some(), "{}", Ipv6Addr::from(form));
        }
    }

    #[test]
    fn only_one_eighth_of_ipv6_is_public(bits: u128) {
        let address = Ipv6Addr::from(bits);
        prop_assert!(SpecialRange::containing(address.into()).is_some() || bits >> 125 == 1);
    }
}
