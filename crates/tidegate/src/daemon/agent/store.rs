//! The last good set of each policy source, on the disk.
//!
//! Each source has one file, which is replaced atomically. The file also holds the address of the
//! source, so a set that came from another server is never used.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use tidegate_config::source::SourceSpec;
use tidegate_repository::Snapshot;

use crate::files;

/// Largest accepted file, in bytes. A source's `max_size` limits its set. The file adds JSON
/// escapes and the origin of each part.
const MOST: usize = 2_000_000_000;

/// A directory with the last good sets.
pub(crate) struct Store {
    folder: PathBuf,
    /// The state of each source's file, by the name of the source.
    files: Mutex<BTreeMap<String, SourceFile>>,
}

/// The known content of a source's file.
enum SourceFile {
    /// The file holds this set. The first field is the address of the source.
    Holds(String, Weak<Snapshot>),
    /// The set in force could not be written, for this reason.
    Lacks(String),
}

/// The content of a file.
#[derive(Deserialize, Serialize)]
struct Kept<S> {
    /// The address of the source.
    #[serde(rename = "place")]
    address: String,
    set: S,
}

impl Store {
    /// A store in `folder`. Writing the first set creates the folder.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, files: Mutex::default() }
    }

    /// The last good set of the source `spec`, if the source's file can be read.
    pub(super) fn load(&self, spec: &SourceSpec) -> Option<Arc<Snapshot>> {
        let text = files::read_regular(&self.file(spec), MOST).ok()?.text;
        let kept: Kept<Snapshot> = serde_json::from_str(&text).ok()?;
        let set = (kept.address == address(spec)).then(|| Arc::new(kept.set))?;
        self.lock()
            .insert(spec.name.clone(), SourceFile::Holds(kept.address, Arc::downgrade(&set)));
        Some(set)
    }

    /// Writes `set` to the file of the source `spec`, unless the file holds this set already. A
    /// failure is an alarm until a set of this source is written.
    pub(crate) fn keep(&self, spec: &SourceSpec, set: &Arc<Snapshot>) {
        let (address, known) = (address(spec), Arc::downgrade(set));
        let is_there = |state: &SourceFile| matches!(state, SourceFile::Holds(at, it) if *at == address && it.ptr_eq(&known));
        if self.lock().get(&spec.name).is_some_and(is_there) {
            return;
        }
        let state = match self.write(spec, set) {
            Ok(()) => SourceFile::Holds(address, known),
            Err(error) => {
                let file = self.file(spec).display().to_string();
                SourceFile::Lacks(format!(
                    "the last good policies of source `{}` are not on the disk, and a restart without its server would lack them: cannot write {file}: {error}",
                    spec.name
                ))
            }
        };
        self.lock().insert(spec.name.clone(), state);
    }

    /// The reason why a set could not be written, if any.
    pub(super) fn alarm(&self) -> Option<String> {
        self.lock().values().find_map(|state| match state {
            SourceFile::Lacks(why) => Some(why.clone()),
            SourceFile::Holds(..) => None,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, SourceFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, spec: &SourceSpec, set: &Snapshot) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let (file, new) = (self.file(spec), self.folder.join(format!(".{}.new", spec.name)));
        let mut options = OpenOptions::new();
        let mut to = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        to.write_all(&serde_json::to_vec(&Kept { address: address(spec), set })?)?;
        to.sync_all()?;
        fs::rename(&new, &file)?;
        File::open(&self.folder)?.sync_all()
    }

    fn file(&self, spec: &SourceSpec) -> PathBuf {
        self.folder.join(Path::new(&format!("{}.json", spec.name)))
    }
}

fn address(spec: &SourceSpec) -> String {
    format!("{:?}", spec.kind)
}
