//! Whether the chain is whole: a function of its rows, whatever kept them.
//!
//! A row that was changed no longer has the hash that it was sealed with. One that was changed and sealed
//! again is not the one that the next row names. Whoever changes a row and seals it and all after it anew
//! makes a chain that holds; only a hash that was written down elsewhere shows it.

use super::AuditRow;

/// What is wrong with a chain: the first thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenChain {
    /// A row is not what was sealed.
    #[error("row {n} of the audit trail was changed")]
    Changed {
        /// Which.
        n: i64,
    },
    /// A row is not there.
    #[error("row {n} of the audit trail is missing")]
    Missing {
        /// Which.
        n: i64,
    },
    /// No row has the hash that one is known to have had.
    #[error(
        "no row of the audit trail has the hash {head}: rows were removed from its end, or it was written anew"
    )]
    OtherHead {
        /// The hash.
        head: String,
    },
}

/// Looks at the rows of a chain, from the first one on, in any number of pieces.
#[derive(Debug)]
pub struct Verifier<'a> {
    n: i64,
    last: String,
    head: Option<&'a str>,
    has_head: bool,
}

impl<'a> Verifier<'a> {
    /// Nothing was looked at yet. `head` is a hash that the chain is known to have had at its end.
    pub fn new(head: Option<&'a str>) -> Verifier<'a> {
        let has_head = head.is_none_or(|head| head == AuditRow::FIRST);
        Verifier { n: 0, last: AuditRow::FIRST.to_owned(), head, has_head }
    }

    /// Looks at the next row of all tenants.
    pub fn add(&mut self, row: &AuditRow) -> Result<(), BrokenChain> {
        let n = self.n + 1;
        if row.n != n {
            return Err(BrokenChain::Missing { n });
        }
        let hash = row.hash();
        if row.seal != hash {
            return Err(BrokenChain::Changed { n });
        }
        if row.prev != self.last {
            // Both are as they were sealed, but not next to each other: the one before was sealed anew.
            return Err(BrokenChain::Changed { n: self.n.max(1) });
        }
        self.has_head |= self.head == Some(&hash);
        (self.n, self.last) = (n, hash);
        Ok(())
    }

    /// The number of the last row that was looked at, 0 at first: where to go on reading.
    pub fn at(&self) -> i64 {
        self.n
    }

    /// The hash of the last row: the chain is whole up to it.
    pub fn end(self) -> Result<String, BrokenChain> {
        match self.head {
            Some(head) if !self.has_head => Err(BrokenChain::OtherHead { head: head.to_owned() }),
            _ => Ok(self.last),
        }
    }
}

/// Looks at all rows of a chain; answers the hash of its last one.
pub fn verify(rows: impl IntoIterator<Item = AuditRow>, head: Option<&str>) -> Result<String, BrokenChain> {
    let mut verifier = Verifier::new(head);
    for row in rows {
        verifier.add(&row)?;
    }
    verifier.end()
}

#[cfg(test)]
mod tests;
