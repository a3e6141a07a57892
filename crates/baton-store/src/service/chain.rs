//! Whether the chain is whole: a function of its rows, whatever kept them.
//!
//! A row that was changed no longer has the hash that it was sealed with. One that was changed and sealed
//! again is not the one that the next row names. A chain that was cut off, emptied or written anew does not fit the
//! end that the store noted when it sealed. A writer who changes that, too, makes a chain that holds; only a hash that
//! was written down elsewhere shows it.

use super::AuditRow;

/// The end of a chain, noted by the write that sealed its last row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEnd {
    /// How many rows were sealed.
    pub rows: i64,
    /// The hash of the last one; of an empty chain: [`AuditRow::FIRST`].
    pub head: String,
}

impl Default for ChainEnd {
    fn default() -> Self {
        ChainEnd { rows: 0, head: AuditRow::FIRST.to_owned() }
    }
}

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
    /// A row was not written by sealing.
    #[error("row {n} of the audit trail was never sealed: something else than Baton added it")]
    NeverSealed {
        /// Which.
        n: i64,
    },
}

/// Looks at the rows of a chain, from the first one on, in any number of pieces.
#[derive(Debug)]
pub struct Verifier<'a> {
    n: i64,
    last: String,
    head: Option<&'a str>,
    has_head: bool,
    sealed: Option<ChainEnd>,
}

impl<'a> Verifier<'a> {
    /// Nothing was looked at yet. `head` is a hash that the chain is known to have had at its end.
    pub fn new(head: Option<&'a str>) -> Verifier<'a> {
        let has_head = head.is_none_or(|head| head == AuditRow::FIRST);
        Verifier { n: 0, last: AuditRow::FIRST.to_owned(), head, has_head, sealed: None }
    }

    /// The same of a chain that has at least this end: as it was noted before the first row was read.
    pub fn sealed(self, end: ChainEnd) -> Verifier<'a> {
        Verifier { sealed: Some(end), ..self }
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
        if let Some(end) = self.sealed.as_ref().filter(|end| end.rows == n && end.head != hash) {
            return Err(BrokenChain::OtherHead { head: end.head.clone() });
        }
        self.has_head |= self.head == Some(&hash);
        (self.n, self.last) = (n, hash);
        Ok(())
    }

    /// The number of the last row that was looked at, 0 at first: where to go on reading.
    pub fn at(&self) -> i64 {
        self.n
    }

    /// The hash of the last row: the chain is whole up to it. `now` is the end as it is noted after the last row was
    /// read: others may have sealed meanwhile.
    pub fn end(self, now: Option<&ChainEnd>) -> Result<String, BrokenChain> {
        if self.sealed.is_some_and(|end| self.n < end.rows) {
            return Err(BrokenChain::Missing { n: self.n + 1 });
        }
        if let Some(end) = now.filter(|end| self.n > end.rows) {
            return Err(BrokenChain::NeverSealed { n: end.rows + 1 });
        }
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
    verifier.end(None)
}

#[cfg(test)]
mod tests;
