//! The address of a database, which may hold a password: printing it shows none.

use std::fmt;

/// The address of a PostgreSQL database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DatabaseUrl(String);

impl DatabaseUrl {
    /// Parses an address of PostgreSQL; `None` for any other text.
    pub(crate) fn read(text: &str) -> Option<DatabaseUrl> {
        let text = text.trim();
        let is_known = ["postgresql://", "postgres://"].iter().any(|scheme| text.starts_with(scheme));
        is_known.then(|| DatabaseUrl(text.to_owned()))
    }

    /// The whole address, with the password, for connecting.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it holds a password.
    pub(super) fn has_password(&self) -> bool {
        let (_, rest) = self.parts();
        let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
        user.contains(':') || rest.contains("password=")
    }

    /// The address for display: user, host and database, without a password and without options.
    pub(crate) fn shown(&self) -> String {
        let (scheme, rest) = self.parts();
        // A password may hold any character that was not encoded, so everything before the last `@` is treated as one.
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (user.split([':', '/', '?', '#', '@']).next().unwrap_or_default(), place),
            None => ("", rest),
        };
        let place = place.split(['?', '&', '#']).next().unwrap_or_default();
        if user.is_empty() { format!("{scheme}://{place}") } else { format!("{scheme}://{user}@{place}") }
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once("://").unwrap_or(("", &self.0))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let cases = [
            ("postgresql://h/db", "postgresql://h/db", false),
            ("postgresql://u@h:5433/db", "postgresql://u@h:5433/db", false),
            ("postgresql://u:secret@h:5433/db?sslmode=require", "postgresql://u@h:5433/db", true),
            ("postgres://u:se/cr?et@h/db", "postgres://u@h/db", true),
            ("postgres://u:secret@secret@h/db", "postgres://u@h/db", true),
            ("postgresql://h/db?user=u&password=secret", "postgresql://h/db", true),
            ("postgresql://h/db?user=u@x&password=secret", "postgresql://h@x", true),
            ("postgresql://:secret@h/db", "postgresql://h/db", true),
        ];
        for (text, shown, has_password) in cases {
            let url = DatabaseUrl::read(text).unwrap();
            assert_eq!((url.shown().as_str(), url.has_password()), (shown, has_password), "{text}");
            assert_eq!(format!("{url:?}"), shown);
            assert_eq!(url.expose(), text);
        }
        assert_eq!(DatabaseUrl::read("mysql://h/db"), None);
    }
}
