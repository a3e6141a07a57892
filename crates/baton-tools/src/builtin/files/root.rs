//! The folders that may be read, and the resolution of paths within them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::secrets::Secrets;
use crate::tool::ToolError;

/// Why a root cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It does not exist, is no folder, or may not be read.
    #[error("cannot open the folder {}: {source}; check that it exists and may be read", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Paths begin with the name of their root, so the names have to differ.
    #[error("two of the folders are both named `{name}`; rename one of them, or name the folder above them")]
    SameName {
        /// The name.
        name: String,
    },
}

/// The root folders, held open. Paths are relative to a single root, or begin with the name of one of several.
pub(super) struct Roots {
    roots: Vec<Root>,
    secrets: Secrets,
}

struct Root {
    name: String,
    /// Its canonical path.
    path: PathBuf,
    dir: Dir,
}

/// A path within a root.
pub(super) struct FileLocation<'a> {
    pub(super) dir: &'a Dir,
    /// The path from the root. Never empty; `.` is the root itself.
    pub(super) inside: PathBuf,
    /// The path as a model would write it; empty for a single root.
    pub(super) shown: String,
    /// The name of its root.
    pub(super) root: &'a str,
    /// The canonical path of its root.
    pub(super) root_path: &'a Path,
}

impl Roots {
    pub(super) fn open(paths: &[PathBuf], secrets: Secrets) -> Result<Roots, RootError> {
        let mut names = BTreeSet::new();
        let mut roots = Vec::new();
        for path in paths {
            let unusable = |source| RootError::Open { path: path.clone(), source };
            let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(unusable)?;
            let full = path.canonicalize().map_err(unusable)?;
            let name =
                full.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
            if !names.insert(name.clone()) {
                return Err(RootError::SameName { name });
            }
            roots.push(Root { name, path: full, dir });
        }
        Ok(Roots { roots, secrets })
    }

    /// Refuses a file that holds secrets, through any link.
    pub(super) fn refuse_secrets(&self, location: &FileLocation<'_>) -> Result<(), ToolError> {
        let real = location.real().map_err(|error| location_error(location, &error))?;
        match self.secrets.why(&real) {
            None => Ok(()),
            Some(reason) => Err(ToolError::invalid_call(format!(
                "{:?} cannot be used: {}.",
                location.shown,
                reason.message()
            ))),
        }
    }

    /// The files that are not shown.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Resolves a path.
    pub(super) fn location(&self, path: &str) -> Result<FileLocation<'_>, ToolError> {
        let path = Path::new(path);
        if !path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir | Component::ParentDir))
        {
            return Err(self.refused("Absolute paths are not accepted."));
        }
        let mut parts = path.components().filter(|part| *part != Component::CurDir);
        let root = match self.roots.as_slice() {
            [only] => Some(only),
            several => match parts.next() {
                Some(Component::Normal(name)) => several.iter().find(|root| *root.name == *name),
                _ => None,
            },
        };
        let root = root.ok_or_else(|| self.refused("The path does not begin with the name of a folder."))?;
        Ok(self.at(root, parts.collect()))
    }

    /// The locations where a walk begins: a path, or every root.
    pub(super) fn walk_roots(&self, path: Option<&str>) -> Result<Vec<FileLocation<'_>>, ToolError> {
        match path {
            None | Some("" | "." | "./") => {
                Ok(self.roots.iter().map(|root| self.at(root, PathBuf::new())).collect())
            }
            Some(path) => Ok(vec![self.location(path)?]),
        }
    }

    fn at<'a>(&self, root: &'a Root, inside: PathBuf) -> FileLocation<'a> {
        let shown = if self.roots.len() > 1 { Path::new(&root.name).join(&inside) } else { inside.clone() };
        let shown = shown.to_string_lossy().trim_end_matches('/').to_owned();
        let inside = if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside };
        FileLocation { dir: &root.dir, inside, shown, root: &root.name, root_path: &root.path }
    }

    fn refused(&self, why: &str) -> ToolError {
        let how = match self.roots.as_slice() {
            [_] => "Write it relative to the folder that list_files shows.".to_owned(),
            several => {
                let names: Vec<String> = several.iter().map(|root| format!("`{}/…`", root.name)).collect();
                format!("Begin it with one of {}.", names.join(", "))
            }
        };
        ToolError::invalid_call(format!("{why} {how}"))
    }
}

impl FileLocation<'_> {
    /// Its canonical path, without a link.
    pub(super) fn real(&self) -> io::Result<PathBuf> {
        Ok(self.root_path.join(self.dir.canonicalize(&self.inside)?))
    }
}

/// Opens a regular file for reading; anything that only looks like one is refused.
pub(super) fn open_regular(dir: &Dir, path: &Path) -> io::Result<(File, Metadata)> {
    // Checked before opening, because opening a device can already have an effect.
    regular(dir.metadata(path)?)?;
    let file = dir.open_with(path, &reading())?;
    // Checked again on the open file, because it may have been replaced in between.
    let metadata = regular(file.metadata()?)?;
    Ok((file, metadata))
}

fn regular(metadata: Metadata) -> io::Result<Metadata> {
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; use list_files"));
    }
    if !metadata.is_file() {
        let why = "it is a pipe, a socket or a device, and not a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(metadata)
}

/// Options for reading without blocking: a pipe that took the place of a file would otherwise hold the thread for ever.
#[cfg(unix)]
pub(super) fn reading() -> OpenOptions {
    use cap_std::fs::OpenOptionsExt;

    let mut options = OpenOptions::new();
    options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    options
}

#[cfg(not(unix))]
pub(super) fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options
}

/// The error for a location that cannot be used.
pub(super) fn location_error(location: &FileLocation<'_>, error: &io::Error) -> ToolError {
    let shown = if location.shown.is_empty() { "." } else { &location.shown };
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file; list_files shows what there is".to_owned(),
        // Not an error of the operating system: the handle itself does not let a path out.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            format!("it leads outside of this folder ({}), and only what is in it can be read", location.root)
        }
        _ => error.to_string(),
    };
    let message = format!("{shown:?} cannot be used: {why}.");
    match error.kind() {
        // The path itself is wrong, or leads outside.
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::InvalidInput => ToolError::invalid_call(message),
        _ => ToolError::new(message),
    }
}
