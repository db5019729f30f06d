//! Memory shared with the kernel through a file descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// A shared mapping of a file, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes of `file` from `offset` on for reading and writing.
    pub(crate) fn of(file: BorrowedFd<'_>, offset: libc::off_t, len: usize) -> io::Result<Self> {
        Self::map(file.as_raw_fd(), libc::MAP_SHARED | libc::MAP_POPULATE, offset, len)
    }

    /// `len` zero bytes of anonymous memory.
    #[cfg(test)]
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(-1, libc::MAP_SHARED | libc::MAP_ANONYMOUS, 0, len)
    }

    fn map(fd: i32, flags: i32, offset: libc::off_t, len: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other mapping.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len })
    }

    /// Pointer to `count` values of `T` at `offset`, valid as long as the mapping exists.
    ///
    /// # Errors
    ///
    /// If the values do not lie within the mapping, or are not aligned.
    pub(crate) fn at<T>(&self, offset: usize, count: usize) -> io::Result<NonNull<T>> {
        let end = count.checked_mul(size_of::<T>()).and_then(|len| len.checked_add(offset));
        if end.is_none_or(|end| end > self.len) {
            return Err(io::Error::other("the kernel's mapping is shorter than what it describes"));
        }
        // SAFETY: offset <= end <= len, so the result lies inside the mapping or at its end.
        let start = unsafe { self.base.add(offset) }.cast::<T>();
        if start.is_aligned() { Ok(start) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping. Everything that points into the mapping keeps this
        // value alive.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
