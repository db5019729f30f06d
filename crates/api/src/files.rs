//! Reads files that the operator names. Limits their size and, for the gateway, the reading time.

use std::fmt;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;
use tidegate_config::NotUtf8;

use crate::code::Code;
use crate::output::Failure;

/// Maximum size of a policy file, and of an API request with one: 64 MiB, about a million policies.
pub const MOST: usize = 64 << 20;

/// Maximum wait for a file system. Local disks answer within milliseconds, a hung NFS server never.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The content and mode of a file.
#[derive(Debug)]
pub struct Text {
    /// The content of the file.
    pub text: String,
    /// File type and permission bits.
    pub mode: u32,
}

/// The reason why a file was not read.
#[derive(Debug)]
pub enum Error {
    /// A system error.
    Io(io::Error),
    /// The file is not UTF-8.
    NotUtf8(NotUtf8),
    /// The file is a FIFO, a directory, a socket or a device.
    NotRegular(&'static str),
    /// The file exceeds this number of bytes.
    TooLarge(usize),
    /// The file system did not answer within this time.
    Silent(Duration),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotUtf8(error) => error.fmt(f),
            Self::NotRegular(kind) => write!(f, "it is {kind}, not a regular file"),
            Self::TooLarge(most) => write!(f, "it is larger than {most} bytes"),
            Self::Silent(wait) => write!(f, "its file system has not answered for {wait:?}"),
        }
    }
}

impl Error {
    /// The failure to read `file`, with its error code.
    pub fn of(&self, file: &Path) -> Failure {
        let code = match self {
            Self::TooLarge(_) => Code::TooLarge,
            Self::NotUtf8(_) => Code::Syntax,
            _ => Code::NoSuchFile,
        };
        Failure::input(code, format!("cannot read {}: {self}", file.display()))
    }
}

/// Reads the regular file at `path`, of at most `most` bytes, within [`PATIENCE`].
///
/// Other kinds of files are not opened, because opening a FIFO waits for a writer.
///
/// # Errors
///
/// If the file cannot be read in time, is larger, or is not UTF-8.
pub fn read_regular(path: &Path, most: usize) -> Result<Text, Error> {
    let (sender, done) = mpsc::sync_channel(1);
    let path = path.to_owned();
    // If the file system hangs, the detached thread stays until the system call returns.
    let read = move || drop(sender.send(regular(&path, most)));
    thread::Builder::new().name("read".to_owned()).spawn(read)?;
    done.recv_timeout(PATIENCE).unwrap_or(Err(Error::Silent(PATIENCE)))
}

fn regular(path: &Path, most: usize) -> Result<Text, Error> {
    refuse_irregular(fs::metadata(path)?.file_type())?;
    // Another process may have put a FIFO there after the check. With O_NONBLOCK, open() does not
    // block on it.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let opened = file.metadata()?;
    refuse_irregular(opened.file_type())?;
    let text = limited(file, most)?;
    Ok(Text { text, mode: opened.permissions().mode() })
}

/// Reads the file at `path`, of at most `most` bytes. The file may be a pipe, such as `<(COMMAND)` in a
/// shell.
///
/// # Errors
///
/// If the file cannot be read, is larger, or is not UTF-8.
pub fn read_any(path: &Path, most: usize) -> Result<String, Error> {
    limited(File::open(path)?, most)
}

fn limited(file: File, most: usize) -> Result<String, Error> {
    let mut bytes = Vec::new();
    // Reads one byte beyond the limit, to detect larger files. A `usize` always fits into a `u64`
    // here.
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(Error::TooLarge(most));
    }
    tidegate_config::text(bytes).map_err(Error::NotUtf8)
}

fn refuse_irregular(kind: FileType) -> Result<(), Error> {
    let name = match kind {
        it if it.is_file() => return Ok(()),
        it if it.is_dir() => "a directory",
        it if it.is_fifo() => "a FIFO",
        it if it.is_socket() => "a socket",
        _ => "a device",
    };
    Err(Error::NotRegular(name))
}

#[cfg(test)]
mod tests {
    use std::env;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    /// Catches: a limit that is off by one; an opened FIFO; an endless read from a device.
    #[test]
    fn only_a_regular_file_of_bounded_size_is_read() {
        let folder = env::temp_dir().join(format!("tidegate-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link, fifo) = (folder.join("file"), folder.join("link"), folder.join("fifo"));
        fs::write(&file, "0123456789").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();

        let read = read_regular(&link, 10).unwrap();
        assert_eq!((read.text.as_str(), read.mode & 0o777), ("0123456789", 0o640));
        assert!(matches!(read_regular(&file, 9), Err(Error::TooLarge(9))));
        let kind = |path: &Path| match read_regular(path, 10) {
            Err(Error::NotRegular(kind)) => kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(kind(&fifo), "a FIFO");
        assert_eq!(kind(&folder), "a directory");
        assert_eq!(kind(Path::new("/dev/zero")), "a device");
        let failure = |path: &Path, most| read_regular(path, most).unwrap_err().of(path);
        assert_eq!(failure(&folder.join("none"), 10).code, Code::NoSuchFile);
        assert_eq!(failure(&file, 9).code, Code::TooLarge);

        assert!(matches!(read_any(Path::new("/dev/zero"), 1 << 20), Err(Error::TooLarge(_))));
        assert_eq!(read_any(&file, 10).unwrap(), "0123456789");
        fs::write(&file, b"[gateway]\nlan = \"\xe9\"\n").unwrap();
        let failure = failure(&file, 99);
        let place = "line 2, column 8: the byte 0xe9 is not UTF-8";
        assert!(failure.code == Code::Syntax && failure.message.contains(place), "{failure:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
