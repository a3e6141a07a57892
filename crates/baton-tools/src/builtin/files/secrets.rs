//! The files that no model is shown, because such files hold secrets.
//!
//! The decision is about names alone, on the canonical path of a file: links were followed before. It is the same for
//! every tool that shows the content of files. Upper and lower case are one, as they are on many disks.

use std::path::{Component, Path, PathBuf};

use baton_core::policy::matches;

/// The files that hold secrets by convention: names, and paths of several, with `*` in them. Everything below a folder
/// of such a name counts, too.
const CONVENTION: [&str; 62] = [
    // Settings of programs, which hold their passwords.
    ".env*",
    "*.env",
    ".htpasswd",
    ".my.cnf",
    ".pgpass",
    "*.tfstate",
    "*.tfstate.backup",
    "proc/*/environ",
    "proc/*/task/*/environ",
    "run/secrets",
    "etc/gshadow*",
    "etc/shadow*",
    // Keys, and stores of keys.
    ".gnupg",
    ".password-store",
    ".ssh",
    "*.jks",
    "*.kdb",
    "*.kdbx",
    "*.key",
    "*.keychain",
    "*.keychain-db",
    "*.keystore",
    "*.p12",
    "*.p8",
    "*.pem",
    "*.pfx",
    "*.ppk",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "id_rsa*",
    "key3.db",
    "key4.db",
    "keychains",
    "keyrings",
    "logins.json",
    // Credentials of tools.
    "_netrc",
    ".aws",
    ".azure",
    ".boto",
    ".cargo/credentials*",
    ".composer/auth.json",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".docker/config.json",
    ".dockercfg",
    ".gem/credentials",
    ".git-credentials",
    ".gradle/gradle.properties",
    ".kube",
    ".m2/settings*.xml",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".s3cfg",
    ".terraform.d",
    ".terraformrc",
    ".vault-token",
    "client_secret*.json",
    "credentials.json",
    "rclone.conf",
];

/// The files that no model is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Baton's own files and folders.
    own: Vec<Vec<String>>,
    /// The operator's exceptions, which are shown.
    except: Vec<String>,
}

/// Why a file is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretReason {
    /// Files of that name hold secrets.
    Convention(&'static str),
    /// It is one of Baton's own.
    Own,
}

impl SecretReason {
    /// The reason in words, for the model and for the operator.
    pub(super) fn message(self) -> String {
        let why = match self {
            SecretReason::Convention(pattern) => format!("files like `{pattern}` hold secrets"),
            SecretReason::Own => "it is one of Baton's own files".to_owned(),
        };
        format!(
            "it is not shown, because {why}; the operator allows it with `allow` below [files] in baton.toml"
        )
    }
}

impl Secrets {
    /// The files that hold secrets by convention and Baton's own files and folders, but for the operator's exceptions:
    /// names and paths with `*`. One of Baton's own is excepted only by a path that begins with `/`.
    pub fn new(own: &[PathBuf], except: &[String]) -> Secrets {
        let real = |path: &PathBuf| parts(&path.canonicalize().unwrap_or_else(|_| path.clone()));
        let own = own.iter().map(real).filter(|parts| !parts.is_empty()).collect();
        Secrets { own, except: except.iter().map(|pattern| pattern.to_lowercase()).collect() }
    }

    /// Why the file at a path, which begins at the root and goes through no link, is not shown.
    pub(super) fn why(&self, real: &Path) -> Option<SecretReason> {
        let real = parts(real);
        if self.own.iter().any(|own| real.starts_with(own)) {
            let named = |pattern: &&String| pattern.starts_with('/');
            let is_named = self.except.iter().filter(named).any(|pattern| leads_to(pattern, &real));
            return (!is_named).then_some(SecretReason::Own);
        }
        let held = CONVENTION.into_iter().find(|pattern| leads_to(pattern, &real))?;
        let is_allowed = self.except.iter().any(|pattern| leads_to(pattern, &real));
        (!is_allowed).then_some(SecretReason::Convention(held))
    }
}

/// The names along a path.
fn parts(path: &Path) -> Vec<String> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_string_lossy().to_lowercase()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

/// Whether a pattern fits somewhere along a path; one that begins with `/`, from its beginning.
fn leads_to(pattern: &str, path: &[String]) -> bool {
    let wanted: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let fits = |from: usize| {
        let names = path.get(from..from + wanted.len());
        names.is_some_and(|names| wanted.iter().zip(names).all(|(wanted, name)| matches(wanted, name)))
    };
    let last = if pattern.starts_with('/') { 0 } else { path.len() };
    !wanted.is_empty() && (0..=last).any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(secrets: &Secrets, path: &str) -> Option<SecretReason> {
        secrets.why(Path::new(path))
    }

    #[test]
    fn files_that_hold_secrets_by_convention_are_not_shown() {
        let secrets = Secrets::default();
        for (path, pattern) in [
            ("/w/.env", ".env*"),
            ("/w/.ENV", ".env*"),
            ("/w/.env.production", ".env*"),
            ("/w/.envrc", ".env*"),
            ("/w/prod.env", "*.env"),
            ("/u/.ssh/config", ".ssh"),
            ("/u/.ssh/deep/er", ".ssh"),
            ("/u/.aws/credentials", ".aws"),
            ("/u/.netrc", ".netrc"),
            ("/u/.npmrc", ".npmrc"),
            ("/u/.pypirc", ".pypirc"),
            ("/u/.git-credentials", ".git-credentials"),
            ("/u/.docker/config.json", ".docker/config.json"),
            ("/u/.kube/config", ".kube"),
            ("/u/.gnupg/private-keys-v1.d/x", ".gnupg"),
            ("/w/certs/server.pem", "*.pem"),
            ("/w/certs/SERVER.KEY", "*.key"),
            ("/w/a.p12", "*.p12"),
            ("/w/a.pfx", "*.pfx"),
            ("/w/a.jks", "*.jks"),
            ("/w/id_rsa", "id_rsa*"),
            ("/w/id_ed25519.bak", "id_ed25519*"),
            ("/u/.config/gh/hosts.yml", ".config/gh"),
            ("/proc/self/environ", "proc/*/environ"),
            ("/proc/7/task/8/environ", "proc/*/task/*/environ"),
            ("/run/secrets/db", "run/secrets"),
        ] {
            assert_eq!(why(&secrets, path), Some(SecretReason::Convention(pattern)), "{path}");
        }
    }

    #[test]
    fn other_files_are_shown() {
        let secrets = Secrets::new(&[PathBuf::from("/u/.local/share/baton")], &[]);
        for path in [
            "/w/README.md",
            "/w/env",
            "/w/environment.md",
            "/w/src/keys.rs",
            "/w/monkey",
            "/w/pem",
            "/w/config.json",
            "/w/docker/config.json",
            "/u/.docker/notes",
            "/u/.config/git/ignore",
            "/u/.local/share/baton2/x",
            "/u/.local/share",
            "/",
        ] {
            assert_eq!(why(&secrets, path), None, "{path}");
        }
    }

    #[test]
    fn files_that_the_operator_allows_are_shown_and_their_neighbours_are_not() {
        let allow = [".env.example", "certs/*.pem", "/w/deploy/.ENV"].map(str::to_owned);
        let secrets = Secrets::new(&[], &allow);
        for path in ["/w/.env.example", "/w/certs/ca.pem", "/w/deploy/.env"] {
            assert_eq!(why(&secrets, path), None, "{path}");
        }
        for path in ["/w/.env", "/w/ca.pem", "/x/w/deploy/.env", "/w/deploy/.env2"] {
            assert!(why(&secrets, path).is_some(), "{path}");
        }
        assert!(why(&Secrets::new(&[], &["/".to_owned(), String::new()]), "/w/.env").is_some());
    }

    #[test]
    fn our_own_files_are_shown_only_if_they_are_named_from_the_root() {
        let own = [PathBuf::from("/srv/baton"), PathBuf::from("/etc/baton/openai")];
        let held = |allow: &[&str], path: &str| {
            let allow: Vec<String> = allow.iter().map(|pattern| (*pattern).to_owned()).collect();
            why(&Secrets::new(&own, &allow), path)
        };
        for allow in [vec![], vec!["*"], vec!["baton"], vec!["/srv/other"]] {
            for path in ["/srv/baton/baton.db", "/srv/baton", "/etc/baton/openai"] {
                assert_eq!(held(&allow, path), Some(SecretReason::Own), "{allow:?}: {path}");
            }
        }
        assert_eq!(held(&["/srv/baton/blobs"], "/srv/baton/blobs/x"), None);
        assert_eq!(held(&["/srv/baton/blobs"], "/srv/baton/baton.db"), Some(SecretReason::Own));
        assert_eq!(held(&[], "/etc/baton/baton.toml"), None);
    }
}
