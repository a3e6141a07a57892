//! Names that are not looked up: those that are valid only inside a network, and those of metadata services.
//!
//! The address of such a name would be refused as well. Refusing the name first keeps the query from the name server,
//! and gives the plain reason.

/// Names under which clouds hand their machines credentials, with all that is below them.
const METADATA: [&str; 11] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.com",
    "metadata.azure.internal",
    "metadata.platformequinix.com",
    "metadata.packet.net",
    "metadata.tencentyun.com",
    "instance-data",
    "instance-data.ec2.internal",
    "rancher-metadata",
];

/// Ends of names that are never public: special use (RFC 6761, 6762, 8375, 9476), kept for private use by
/// ICANN, and those that routers and clusters make up.
const LOCAL: [&str; 16] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "in-addr.arpa",
    "ip6.arpa",
    "alt",
    "onion",
    "svc",
    "consul",
];

/// Whether this is the name of a metadata service.
pub(super) fn is_metadata(name: &str) -> bool {
    METADATA.iter().any(|known| is_below(name, known))
}

/// Whether this name is valid only inside a network. A name without a dot always is.
pub(super) fn is_local(name: &str) -> bool {
    !name.contains('.') || LOCAL.iter().any(|end| is_below(name, end))
}

fn is_below(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_by_whole_labels() {
        let table = [
            ("metadata.google.internal", true, true),
            ("x.metadata.google.internal", true, true),
            ("notmetadata.goog", false, false),
            ("metadata", true, true),
            ("metadata.example.com", false, false),
            ("localhost", false, true),
            ("a.localhost", false, true),
            ("notlocalhost.com", false, false),
            ("printer", false, true),
            ("printer.local", false, true),
            ("a.b.home.arpa", false, true),
            ("kubernetes.default.svc", false, true),
            ("1.0.0.127.in-addr.arpa", false, true),
            ("local.example.com", false, false),
            ("example.com", false, false),
        ];
        for (name, metadata, local) in table {
            assert_eq!((is_metadata(name), is_local(name)), (metadata, local), "{name}");
        }
    }
}
