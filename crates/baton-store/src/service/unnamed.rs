//! Finds stored outputs that are no longer named anywhere.
//!
//! Any mention counts, anywhere in a row: in a field, an argument, a sentence. If a row cannot be read, the names in it
//! are not known, so no output of its tenant is removed.

use std::collections::{BTreeMap, HashMap};

use baton_core::id::Tenant;

/// The length of a hash in hexadecimal.
const LEN: usize = 64;

/// Candidates for removal, with their sizes; each is struck out as soon as a row that names it is seen.
#[derive(Debug, Default)]
pub(crate) struct Unnamed(BTreeMap<Tenant, HashMap<String, u64>>);

impl Unnamed {
    pub(crate) fn add(&mut self, tenant: Tenant, hash: String, size: u64) {
        self.0.entry(tenant).or_default().insert(hash, size);
    }

    /// Whether no candidate is left, so that no more rows need be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tenants that have candidates.
    pub(crate) fn tenants(&self) -> Vec<Tenant> {
        self.0.keys().cloned().collect()
    }

    /// Whether a tenant has candidates.
    pub(crate) fn has(&self, tenant: &Tenant) -> bool {
        self.0.contains_key(tenant)
    }

    /// Strikes out all candidates that a row names.
    pub(crate) fn saw(&mut self, tenant: &Tenant, row: Result<impl AsRef<[u8]>, String>) {
        let Some(hashes) = self.0.get_mut(tenant) else { return };
        match &row {
            Ok(text) => mentioned(text.as_ref(), |hash| {
                hashes.remove(hash);
            }),
            Err(error) => {
                tracing::warn!(%tenant, error, "a row cannot be read: all stored outputs are kept");
                hashes.clear();
            }
        }
        if hashes.is_empty() {
            self.0.remove(tenant);
        }
    }

    /// The number of candidates, and their size in bytes.
    pub(crate) fn count(&self) -> (u64, u64) {
        let sizes = self.0.values().flat_map(HashMap::values);
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
    }

    pub(crate) fn into_keys(self) -> impl Iterator<Item = (Tenant, String)> {
        self.0.into_iter().flat_map(|(tenant, hashes)| {
            hashes.into_keys().map(move |hash| (tenant.clone(), hash)).collect::<Vec<_>>()
        })
    }
}

/// Calls `with` for every part of a text that could be a hash.
fn mentioned(text: &[u8], mut with: impl FnMut(&str)) {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    for digits in text.split(|byte| !is_digit(byte)) {
        for window in digits.windows(LEN) {
            with(str::from_utf8(window).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_mentioned_is_kept() {
        let hash = |c: char| c.to_string().repeat(LEN);
        let ours = Tenant::local();
        let theirs: Tenant = "theirs".parse().unwrap();
        let mut unnamed = Unnamed::default();
        for c in ['a', 'b', 'c'] {
            unnamed.add(ours.clone(), hash(c), 10);
        }
        unnamed.add(theirs.clone(), hash('a'), 5);
        let row = format!("{{\"text\":\"see {}.\",\"hash\":\"1{}\"}}", hash('a'), hash('b'));
        unnamed.saw(&ours, Ok(row));
        assert_eq!(unnamed.count(), (2, 15), "theirs is not named by ours");
        unnamed.saw(&theirs, Err::<&[u8], _>("damaged".to_owned()));
        assert_eq!(unnamed.into_keys().collect::<Vec<_>>(), [(ours, hash('c'))]);
    }

    #[test]
    fn nothing_is_left_when_all_are_named() {
        let mut unnamed = Unnamed::default();
        unnamed.add(Tenant::local(), "0".repeat(LEN), 1);
        unnamed.saw(&Tenant::local(), Ok("0".repeat(LEN - 1)));
        assert!(!unnamed.is_empty(), "too short for a hash");
        unnamed.saw(&Tenant::local(), Ok("0".repeat(LEN + 1)));
        assert!(unnamed.is_empty());
    }
}
