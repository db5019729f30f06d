//! Decides which files of a directory the marker (the file `COMMIT`) commits: the files that have
//! not changed since the marker was written.
//!
//! Normally, the time of a file's last change decides. If the clock was set back, these times
//! mislead in two ways. A file that is changed after the marker may have an earlier time than the
//! marker. And when the clock reaches the old times again, an unchanged file may seem newer than a
//! new marker. So this module remembers the files that were read with a marker. The same marker
//! commits no other versions of files. A later marker also commits the remembered files that have
//! not changed.
//!
//! Some file systems store times in whole seconds. Two markers that are written into one file
//! within a second may then differ only in their content. So the content is compared too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::read::Version;

/// Resolution of file times. The clock that Linux uses for file times advances in steps of up to 10
/// ms (1/`CONFIG_HZ`).
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// The set that was last read with a marker.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// Version and content of the marker.
    marker: Option<(Version, Vec<u8>)>,
    /// The files of the set, in the order of their names.
    files: Vec<(PathBuf, Version)>,
    /// Time of the last addition or removal in the directory.
    listed: Duration,
}

/// The current state of a directory that has a marker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub marker: Version,
    /// Content of the marker.
    pub content: &'a [u8],
    pub directory: &'a Path,
    /// Time of the last addition or removal in the directory.
    pub listed: Duration,
    /// The files of the set, in the order of their names.
    pub files: &'a [(PathBuf, Version)],
}

impl Committed {
    /// Stores the set that was read.
    pub(super) fn keep(&mut self, found: &Found<'_>) {
        *self = Self {
            marker: Some((found.marker, found.content.to_vec())),
            files: found.files.to_vec(),
            listed: found.listed,
        };
    }

    /// Returns a path that the marker does not commit: a file that was changed or added after the
    /// marker was written, or the directory if a file was removed.
    ///
    /// A file time after `now` dates from before the clock was set back, so it proves no change and
    /// is ignored.
    pub(super) fn newer<'a>(&self, found: &Found<'a>, now: Duration) -> Option<&'a Path> {
        let known = |path: &Path| {
            let at = self.files.binary_search_by(|(known, _)| known.as_path().cmp(path)).ok()?;
            self.files.get(at).map(|(_, version)| *version)
        };
        let is_known = |(path, version): &(PathBuf, Version)| known(path) == Some(*version);
        let mut unknown = found.files.iter().filter(|file| !is_known(file));
        let is_same = |(version, content): &(Version, Vec<u8>)| {
            *version == found.marker && content == found.content
        };
        if self.marker.as_ref().is_some_and(is_same) {
            let added = unknown.next().map(|(path, _)| path.as_path());
            let removed = (self.files.len() != found.files.len()).then_some(found.directory);
            return added.or(removed);
        }
        let newer = |changed: Duration| changed > found.marker.changed && changed <= now;
        let changed = unknown.find(|(_, version)| newer(version.changed));
        let listed = self.listed != found.listed && newer(found.listed.saturating_sub(CLOCK_STEP));
        match changed {
            Some((path, _)) => Some(path),
            None => listed.then_some(found.directory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(inode: u64, changed: u64) -> Version {
        let changed = Duration::from_secs(changed);
        Version { device: 1, inode, size: 10, changed, modified: changed }
    }

    /// Test files `1`, `2` and so on, last changed at these seconds.
    fn files(changed: &[u64]) -> Vec<(PathBuf, Version)> {
        let one =
            |(number, at): (u64, &u64)| (format!("{number}.toml").into(), version(number, *at));
        (1..).zip(changed).map(one).collect()
    }

    /// The state of a directory whose marker was written at second `marker` and whose list of files
    /// last changed at second `listed`.
    fn found(marker: u64, listed: u64, files: &[(PathBuf, Version)]) -> Found<'_> {
        let directory = Path::new("policies");
        let listed = Duration::from_secs(listed);
        Found { marker: version(99, marker), content: b"41", directory, listed, files }
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The marker was written at 100 s. Then the clock is set back to 50 s.
    ///
    /// Catches: a file that was changed or removed after the marker and yet counts as committed,
    /// because the clock gave the change an earlier time.
    #[test]
    fn a_change_after_the_clock_was_set_back_waits_for_a_marker() {
        let (first, edited) = (files(&[80, 90]), files(&[80, 55]));
        let more = [&first[..], &files(&[1, 1, 56])[2..]].concat();
        let mut committed = Committed::default();
        assert_eq!(committed.newer(&found(100, 90, &first), at(101)), None);
        committed.keep(&found(100, 90, &first));
        assert_eq!(committed.newer(&found(100, 90, &first), at(51)), None);
        let name = |number| PathBuf::from(format!("{number}.toml"));
        let newer = |files: &[(PathBuf, Version)], listed| {
            committed.newer(&found(100, listed, files), at(57)).map(Path::to_owned)
        };
        assert_eq!(newer(&edited, 90), Some(name(2)));
        assert_eq!(newer(&more, 56), Some(name(3)));
        assert_eq!(newer(&first[..1], 56), Some(PathBuf::from("policies")));
        // The next marker commits the new file.
        assert_eq!(committed.newer(&found(60, 56, &more), at(61)), None);
    }

    /// The files and the directory were changed at 80 and 90 s. Then the clock is set back, and the
    /// next marker is written at 60 s.
    ///
    /// Catches: an unchanged file or directory that blocks the commit, because its time is later
    /// than the marker's; a file that was changed after the marker and counts as committed.
    #[test]
    fn unchanged_files_stay_committed_when_the_clock_reaches_their_times_again() {
        let (first, edited) = (files(&[80, 90, 90]), files(&[80, 90, 58]));
        let mut committed = Committed::default();
        committed.keep(&found(91, 90, &first));
        for now in [61, 95, 1_000] {
            assert_eq!(committed.newer(&found(60, 90, &edited), at(now)), None, "{now}");
        }
        let late = files(&[80, 90, 94]);
        assert_eq!(committed.newer(&found(60, 90, &late), at(95)), Some(Path::new("3.toml")));
        assert_eq!(committed.newer(&found(60, 94, &edited), at(95)), Some(Path::new("policies")));
    }

    /// The file system stores times in whole seconds, and all changes happen at 100 s. The second
    /// marker is as long as the first and is written into the same file.
    ///
    /// Catches: a new marker that is taken for the old one, because its time and length are equal.
    /// The commit of the new marker would be lost.
    #[test]
    fn a_new_marker_within_the_same_second_is_recognised_by_its_content() {
        let one = files(&[100, 100]);
        let (path, before) = one[0].clone();
        let edited = [(path, Version { size: before.size + 1, ..before }), one[1].clone()];
        let mut committed = Committed::default();
        committed.keep(&found(100, 100, &one));
        let same = found(100, 100, &edited);
        assert_eq!(committed.newer(&same, at(101)), Some(Path::new("1.toml")));
        assert_eq!(committed.newer(&Found { content: b"42", ..same }, at(101)), None);
    }

    /// Catches: a first read after a start that accepts files newer than the marker.
    #[test]
    fn after_a_start_newer_files_are_not_committed() {
        let committed = Committed::default();
        let newer = |marker, changed: u64, listed| {
            let files = files(&[changed]);
            committed.newer(&found(marker, listed, &files), at(200)).is_some()
        };
        assert_eq!(
            [newer(100, 99, 99), newer(100, 101, 99), newer(100, 99, 101)],
            [false, true, true]
        );
        assert!(!newer(100, 201, 99), "a time in the future says nothing");
    }
}
