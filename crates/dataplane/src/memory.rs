//! Packet memory: one memory area with buffers of equal size, shared by all ports of a gateway.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use tidegate_core::packet::FrameCopy;
use tidegate_core::{PacketId, PacketPool};

use crate::vnet::VnetHeader;

/// Buffers of equal size in one anonymous mapping. Buffer `n` holds the frame of the packet in slot
/// `n` of the [`PacketPool`].
///
/// A clone is another handle to the same buffers, for another port of the same thread. The system
/// allocates pages on first use. The pool must not have more slots than there are buffers: a packet
/// beyond the last buffer causes a panic.
#[derive(Clone, Debug)]
pub struct PacketMemory {
    area: Rc<RefCell<Area>>,
    frames: Rc<[Cell<Frame>]>,
}

/// Position of a frame in its buffer, with the kernel's metadata.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    /// Offset of the frame's first byte in the buffer.
    pub offset: u32,
    /// Work that was left to the hardware: the checksum, and the split into segments.
    pub vnet: VnetHeader,
}

impl Frame {
    /// No frame: the packet has no bytes, and a port drops it.
    pub(crate) const NONE: Self = Self { offset: u32::MAX, vnet: VnetHeader::NONE };

    pub(crate) const fn is_none(&self) -> bool {
        self.offset == u32::MAX
    }
}

impl PacketMemory {
    /// Size of the smallest buffer: room for a frame of 1500 bytes and the headroom of ports.
    pub const SMALLEST: u32 = 2_048;

    /// Creates `buffers` buffers of `size` bytes each. AF_XDP needs a `size` that is a power of two
    /// and at most a page.
    ///
    /// # Errors
    ///
    /// If `size` is below [`SMALLEST`](Self::SMALLEST), or the address space is too small.
    pub fn new(buffers: u32, size: u32) -> io::Result<Self> {
        if size < Self::SMALLEST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let area = Area::map(index(buffers), index(size))?;
        let frames = (0..buffers).map(|_| Cell::default()).collect();
        Ok(Self { area: Rc::new(RefCell::new(area)), frames })
    }

    /// Number of buffers.
    #[must_use]
    pub fn buffers(&self) -> usize {
        self.frames.len()
    }

    /// Bytes of each buffer.
    #[must_use]
    pub fn size(&self) -> usize {
        self.area.borrow().size
    }

    /// Start of the first buffer. The memory from here on has [`buffers`](Self::buffers) times
    /// [`size`](Self::size) bytes, and is valid while any handle lives.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.area.borrow().base
    }

    /// The buffer of `packet`.
    #[must_use]
    pub fn buffer(&self, packet: &PacketId) -> Ref<'_, [u8]> {
        Ref::map(self.area.borrow(), |area| area.buffer(packet.index()))
    }

    /// The buffer of `packet`, for changes.
    #[must_use]
    pub fn buffer_mut(&self, packet: &PacketId) -> RefMut<'_, [u8]> {
        RefMut::map(self.area.borrow_mut(), |area| area.buffer_mut(packet.index()))
    }

    /// The first `len` bytes of the frame of `packet`, at most up to the end of its buffer.
    #[must_use]
    pub fn bytes(&self, packet: &PacketId, len: u32) -> Ref<'_, [u8]> {
        let start = self.frame(packet).offset;
        Ref::map(self.buffer(packet), |buffer| &buffer[span(buffer.len(), start, len)])
    }

    /// Like [`bytes`](Self::bytes), for changes.
    #[must_use]
    pub fn bytes_mut(&self, packet: &PacketId, len: u32) -> RefMut<'_, [u8]> {
        let start = self.frame(packet).offset;
        RefMut::map(self.buffer_mut(packet), |buffer| {
            let span = span(buffer.len(), start, len);
            &mut buffer[span]
        })
    }

    /// Places a new frame of `len` bytes in the buffer of `packet`, after the headroom. Returns
    /// `None` if the buffer is too short.
    pub(crate) fn place(
        &self,
        pool: &mut PacketPool,
        packet: &PacketId,
        len: usize,
    ) -> Option<RefMut<'_, [u8]>> {
        self.hold(pool, packet, index(HEADROOM)..index(HEADROOM) + len)
    }

    /// Sets the frame of a packet to the bytes `span` of its buffer. Returns `None` if the buffer
    /// is shorter.
    pub(crate) fn hold(
        &self,
        pool: &mut PacketPool,
        packet: &PacketId,
        span: Range<usize>,
    ) -> Option<RefMut<'_, [u8]>> {
        let (offset, len) = (u32::try_from(span.start).ok()?, u32::try_from(span.len()).ok()?);
        let frame =
            RefMut::filter_map(self.buffer_mut(packet), |buffer| buffer.get_mut(span)).ok()?;
        self.set_frame(packet, Frame { offset, vnet: VnetHeader::default() });
        (pool[packet].len, pool[packet].rewritten) = (len, false);
        Some(frame)
    }

    /// Copies the first bytes of the frame of slot `copy.from` to a frame of slot `copy.to`.
    /// Then calls `finish` with the whole source frame, the new frame and its metadata. If `finish`
    /// returns `None`, the new slot gets [no frame](Frame::NONE).
    pub(crate) fn copy(
        &self,
        copy: &FrameCopy,
        finish: impl FnOnce(&[u8], &mut [u8], VnetHeader) -> Option<VnetHeader>,
    ) {
        let mut area = self.area.borrow_mut();
        let Frame { offset, vnet } = self.frames[copy.from].get();
        let (from, to) = area.pair(copy.from, copy.to);
        let whole = &from[span(from.len(), offset, copy.whole)];
        let head = &whole[..whole.len().min(index(copy.len))];
        let part = span(to.len(), offset, copy.len.min(copy.whole));
        let part = &mut to[part];
        part.copy_from_slice(head);
        let vnet = finish(whole, part, vnet);
        self.frames[copy.to].set(vnet.map_or(Frame::NONE, |vnet| Frame { offset, vnet }));
    }

    /// Start of the buffer of `packet`.
    pub(crate) fn start(&self, packet: &PacketId) -> *mut u8 {
        self.area.borrow().start(packet.index()).as_ptr()
    }

    /// The position of the frame of `packet`.
    #[must_use]
    pub fn frame(&self, packet: &PacketId) -> Frame {
        self.frames[packet.index()].get()
    }

    /// Sets the position of the frame of `packet`.
    pub fn set_frame(&self, packet: &PacketId, frame: Frame) {
        self.frames[packet.index()].set(frame);
    }
}

/// Offset of frames that are created here. It equals the headroom that the kernel keeps for
/// headers.
pub(crate) const HEADROOM: u32 = 256;

/// The range of `len` bytes from `start` on, limited to the first `limit` bytes.
pub(crate) fn span(limit: usize, start: u32, len: u32) -> Range<usize> {
    let start = index(start).min(limit);
    start..(start + index(len)).min(limit)
}

#[expect(clippy::as_conversions, reason = "u32 fits in usize on every target we build for")]
pub(crate) const fn index(n: u32) -> usize {
    n as usize
}

/// The mapping that holds all buffers.
#[derive(Debug)]
struct Area {
    base: NonNull<u8>,
    buffers: usize,
    size: usize,
}

impl Area {
    fn map(buffers: usize, size: usize) -> io::Result<Self> {
        let len = buffers.checked_mul(size).ok_or(io::ErrorKind::OutOfMemory)?;
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps no other
        // mapping.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, buffers, size })
    }

    fn start(&self, n: usize) -> NonNull<u8> {
        assert!(n < self.buffers, "slot {n} of a pool for {} buffers", self.buffers);
        // SAFETY: n < buffers, so the result lies inside the mapping.
        unsafe { self.base.add(n * self.size) }
    }

    fn buffer(&self, n: usize) -> &[u8] {
        // SAFETY: the buffer lies in the mapping, which is initialised (anonymous pages are zero)
        // and lives as long as `self`. Only `&mut self` or the kernel writes to it. While a packet
        // is lent to the kernel, no `PacketId` exists that gives access to its buffer.
        unsafe { NonNull::slice_from_raw_parts(self.start(n), self.size).as_ref() }
    }

    fn buffer_mut(&mut self, n: usize) -> &mut [u8] {
        // SAFETY: as in `buffer`. Because of `&mut self`, this is the only reference into the
        // mapping.
        unsafe { NonNull::slice_from_raw_parts(self.start(n), self.size).as_mut() }
    }

    /// The buffers `one` and `other`, which must differ. The second can be changed.
    fn pair(&mut self, one: usize, other: usize) -> (&[u8], &mut [u8]) {
        assert_ne!(one, other, "a frame is copied onto itself");
        let [one, other] =
            [one, other].map(|n| NonNull::slice_from_raw_parts(self.start(n), self.size));
        // SAFETY: as in `buffer_mut`, and the two buffers do not overlap.
        unsafe { (one.as_ref(), { other }.as_mut()) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no handle to it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.buffers * self.size) };
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Packet;

    use super::*;

    #[test]
    fn every_packet_has_its_own_bytes_that_all_handles_share() {
        let mut pool = PacketPool::with_capacity(3);
        let memory = PacketMemory::new(3, 2_048).unwrap();
        let other = memory.clone();
        let ids: Vec<_> = (0..3).map(|_| pool.insert(Packet::default()).unwrap()).collect();
        for (id, fill) in ids.iter().zip(1..) {
            memory.set_frame(id, Frame { offset: 4, ..Frame::default() });
            memory.bytes_mut(id, 60).fill(fill);
        }
        for (id, fill) in ids.iter().zip(1..) {
            assert_eq!(*other.bytes(id, 60), [fill; 60]);
            assert_eq!(other.buffer(id)[..4], [0; 4]);
            assert_eq!(other.buffer(id)[64..], [0; 2_048 - 64]);
        }
        ids.into_iter().for_each(|id| pool.release(id));
    }

    #[test]
    fn a_frame_never_extends_beyond_its_buffer() {
        let mut pool = PacketPool::with_capacity(1);
        let memory = PacketMemory::new(1, 2_048).unwrap();
        let id = pool.insert(Packet::default()).unwrap();
        memory.set_frame(&id, Frame { offset: 2_000, ..Frame::default() });
        assert_eq!(memory.bytes(&id, u32::MAX).len(), 48);
        memory.set_frame(&id, Frame { offset: u32::MAX, ..Frame::default() });
        assert_eq!(memory.bytes_mut(&id, 60).len(), 0);
        pool.release(id);
    }

    #[test]
    fn too_small_buffers_and_more_memory_than_the_address_space_are_errors() {
        assert!(PacketMemory::new(1, 2_047).is_err());
        assert!(PacketMemory::new(u32::MAX, u32::MAX).is_err());
    }
}
