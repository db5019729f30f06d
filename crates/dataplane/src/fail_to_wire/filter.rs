//! The tc program as a filter, for kernels without links to tc (before Linux 6.6).
//!
//! A filter belongs to its interface and outlives the process without a pin. Ours is known by where
//! it stands.

use std::io;
use std::mem::ManuallyDrop;

use aya::programs::tc::{
    NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle, qdisc_add_clsact,
};
use aya::programs::{Link, ProgramError, SchedClassifier, TcAttachType};

use super::os_error;
use super::programs::Attached;
use crate::interface::Interface;

/// Where our filter stands among those of an interface: nobody else comes upon this pair.
const PRIORITY: u16 = 0x7467;
const HANDLE: TcHandle = TcHandle::new(0x7467, 0x7761);

/// Puts `program` in the place of our filter on `interface`, without a packet in between, or there
/// anew.
pub(super) fn put(
    program: &mut SchedClassifier,
    interface: &Interface,
) -> Result<Attached, ProgramError> {
    if let Ok(id) = program.attach_to_link(ours(interface)?) {
        stay(program.take_link(id)?);
        return Ok(Attached::Replaced);
    }
    match qdisc_add_clsact(interface.name()) {
        Err(error) if os_error(&error) != Some(libc::EEXIST) => return Err(error.into()),
        _ => {}
    }
    let options = NlOptions { priority: PRIORITY, handle: HANDLE, classid: None };
    let options = TcAttachOptions::Netlink(options);
    let id = program.attach_with_options(interface.name(), TcAttachType::Ingress, options)?;
    stay(program.take_link(id)?);
    Ok(Attached::New)
}

/// Takes our filter off `interface`; says whether there was one. The discipline it was in stays:
/// others may use it.
pub(super) fn remove(interface: &Interface) -> io::Result<bool> {
    match ours(interface)?.detach() {
        Ok(()) => Ok(true),
        Err(error) => match os_error(&error) {
            // No filter, or no discipline for it to be in.
            Some(libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP) => Ok(false),
            Some(number) => Err(io::Error::from_raw_os_error(number)),
            None => Err(io::Error::other(error)),
        },
    }
}

/// Leaves the filter where it is: dropped, `link` would take it away.
fn stay(link: SchedClassifierLink) {
    let _ = ManuallyDrop::new(link);
}

fn ours(interface: &Interface) -> io::Result<SchedClassifierLink> {
    let ingress = TcAttachType::Ingress;
    SchedClassifierLink::attached(interface.name(), ingress, PRIORITY, HANDLE, None)
}
