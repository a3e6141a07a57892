//! Which long outputs nobody names any more.
//!
//! Any mention counts, wherever in a row it stands: a field, an argument, a sentence. Where a row cannot be
//! read nobody knows what it names, and nothing of its tenant is given up.

use std::collections::{BTreeMap, HashMap};

use baton_core::id::Tenant;

/// The length of a hash in hexadecimal.
const LEN: usize = 64;

/// Blobs that may go, with their sizes, as long as nothing was seen that names them.
#[derive(Debug, Default)]
pub(crate) struct Unnamed(BTreeMap<Tenant, HashMap<String, u64>>);

impl Unnamed {
    pub(crate) fn add(&mut self, tenant: Tenant, hash: String, size: u64) {
        self.0.entry(tenant).or_default().insert(hash, size);
    }

    /// Whether nothing is left to give up, so that nothing more need be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose blobs are in question.
    pub(crate) fn tenants(&self) -> Vec<Tenant> {
        self.0.keys().cloned().collect()
    }

    /// Whether any of a tenant's are.
    pub(crate) fn has(&self, tenant: &Tenant) -> bool {
        self.0.contains_key(tenant)
    }

    /// Keeps whatever a row names.
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

    /// How many there are, and their bytes.
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

/// Calls `with` for everything in a text that could be a hash.
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
