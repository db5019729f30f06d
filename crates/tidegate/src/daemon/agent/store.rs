//! The last good sets on the disk.
//!
//! Each source has one file, replaced atomically. It holds the place of the source too, so that the set of another
//! server is not taken for its own.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_config::source::SourceSpec;
use tidegate_repository::Snapshot;

use crate::files;

/// Largest file that is read: a source of the largest `max_size`, with its origins and escapes.
const MOST: usize = 2_000_000_000;

/// A directory with the last good sets.
pub(crate) struct Store {
    folder: PathBuf,
    /// Why the last set could not be written.
    problem: Mutex<Option<String>>,
}

/// A set in its file.
#[derive(Deserialize, Serialize)]
struct Kept<S> {
    /// The place of the source.
    place: String,
    set: S,
}

impl Store {
    /// Sets are kept in `folder`, which is made when the first one is.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, problem: Mutex::default() }
    }

    /// The last good set of `spec`, if there is one that can be read.
    pub(super) fn load(&self, spec: &SourceSpec) -> Option<Snapshot> {
        let text = files::read_regular(&self.file(spec), MOST).ok()?.text;
        let kept: Kept<Snapshot> = serde_json::from_str(&text).ok()?;
        (kept.place == place(spec)).then_some(kept.set)
    }

    /// Writes the set of `spec`. A failure is an alarm, until a later set is written.
    pub(super) fn keep(&self, spec: &SourceSpec, set: &Snapshot) {
        let written = self.write(spec, set);
        let problem = written.err().map(|error| {
            let file = self.file(spec).display().to_string();
            format!("the last good policies of source `{}` are not on the disk, and a restart without its server would lack them: cannot write {file}: {error}", spec.name)
        });
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Why sets are not on the disk.
    pub(super) fn alarm(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, spec: &SourceSpec, set: &Snapshot) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let (file, new) = (self.file(spec), self.folder.join(format!(".{}.new", spec.name)));
        let mut options = OpenOptions::new();
        let mut to = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        to.write_all(&serde_json::to_vec(&Kept { place: place(spec), set })?)?;
        to.sync_all()?;
        fs::rename(&new, &file)?;
        File::open(&self.folder)?.sync_all()
    }

    fn file(&self, spec: &SourceSpec) -> PathBuf {
        self.folder.join(Path::new(&format!("{}.json", spec.name)))
    }
}

fn place(spec: &SourceSpec) -> String {
    format!("{:?}", spec.kind)
}
