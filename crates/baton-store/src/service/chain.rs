//! Verifies the audit chain: a function of its rows, independent of the back end.
//!
//! A row that was changed no longer has the hash that it was sealed with. A row that was changed and sealed again is
//! not the one that the next row names. A chain that was cut off, emptied or written anew does not fit the end that the
//! store noted when it sealed. A writer who changes that end as well makes a valid chain; only a hash that was
//! written down elsewhere shows it.

use super::AuditRow;

/// The end of a chain, noted by the write that sealed its last row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEnd {
    /// How many rows were sealed.
    pub rows: i64,
    /// The hash of the last row; [`AuditRow::FIRST`] for an empty chain.
    pub head: String,
}

impl Default for ChainEnd {
    fn default() -> Self {
        ChainEnd { rows: 0, head: AuditRow::FIRST.to_owned() }
    }
}

/// The first fault of a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenChain {
    /// A row differs from the row that was sealed.
    #[error("row {n} of the audit trail was changed")]
    Changed {
        /// The number of the row.
        n: i64,
    },
    /// A row is missing.
    #[error("row {n} of the audit trail is missing")]
    Missing {
        /// The number of the row.
        n: i64,
    },
    /// No row has the hash that the chain is known to have had at its end.
    #[error(
        "no row of the audit trail has the hash {head}: rows were removed from its end, or it was written anew"
    )]
    OtherHead {
        /// The expected hash.
        head: String,
    },
    /// A row was written, but not by sealing.
    #[error("row {n} of the audit trail was never sealed: something else than Baton added it")]
    NeverSealed {
        /// The number of the row.
        n: i64,
    },
}

/// Verifies the rows of a chain in order, in any number of pieces.
#[derive(Debug)]
pub struct Verifier<'a> {
    n: i64,
    last: String,
    head: Option<&'a str>,
    has_head: bool,
    sealed: Option<ChainEnd>,
}

impl<'a> Verifier<'a> {
    /// A verifier before the first row. `head` is a hash that the chain is known to have had at its end.
    pub fn new(head: Option<&'a str>) -> Verifier<'a> {
        let has_head = head.is_none_or(|head| head == AuditRow::FIRST);
        Verifier { n: 0, last: AuditRow::FIRST.to_owned(), head, has_head, sealed: None }
    }

    /// Also requires that the chain reaches at least this end, as noted before the first row was read.
    pub fn sealed(self, end: ChainEnd) -> Verifier<'a> {
        Verifier { sealed: Some(end), ..self }
    }

    /// Verifies the next row; rows of all tenants must be given.
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
            // Both rows have their hashes, but the second does not name the first: the first was sealed anew.
            return Err(BrokenChain::Changed { n: self.n.max(1) });
        }
        if let Some(end) = self.sealed.as_ref().filter(|end| end.rows == n && end.head != hash) {
            return Err(BrokenChain::OtherHead { head: end.head.clone() });
        }
        self.has_head |= self.head == Some(&hash);
        (self.n, self.last) = (n, hash);
        Ok(())
    }

    /// The number of the last verified row, 0 at first: the cursor for reading on.
    pub fn at(&self) -> i64 {
        self.n
    }

    /// The hash of the last row: the chain is whole up to it. `now` is the end as noted after the last row was read,
    /// because other processes may have sealed meanwhile.
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

/// Verifies all rows of a chain; returns the hash of the last one.
pub fn verify(rows: impl IntoIterator<Item = AuditRow>, head: Option<&str>) -> Result<String, BrokenChain> {
    let mut verifier = Verifier::new(head);
    for row in rows {
        verifier.add(&row)?;
    }
    verifier.end(None)
}

#[cfg(test)]
mod tests;
