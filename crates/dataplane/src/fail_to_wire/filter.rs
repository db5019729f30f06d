//! Attaches the tc program as a `clsact` filter, for kernels without TCX (before Linux 6.6).
//!
//! A filter belongs to its interface and outlives the process. Our filter has a fixed priority and
//! handle.
//!
//! Source: Linux `include/uapi/linux/pkt_cls.h`, `TCA_BPF_*`; `rtnetlink.h`, `struct tcmsg`.

use std::io;
use std::mem::ManuallyDrop;

use aya::programs::tc::{
    NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle, qdisc_add_clsact,
};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};

use super::os_error;
use crate::interface::Interface;
use crate::netlink::{Request, find, number};

/// Priority and handle of our filter: "tg" and "tgwa" in ASCII, an unlikely choice for other
/// software.
const PRIORITY: u16 = 0x7467;
const HANDLE: u32 = 0x7467_7761;

/// A filter with a BPF program, given by its id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Filter {
    pub(super) priority: u16,
    pub(super) handle: u32,
    pub(super) program: u32,
}

/// The filters with BPF programs at the ingress of `interface`, in execution order.
pub(super) fn all(interface: &Interface) -> io::Result<Vec<Filter>> {
    let request = Request::new(libc::RTM_GETTFILTER, libc::NLM_F_DUMP, &about(interface, 0, 0));
    let answers = match request.send(libc::NETLINK_ROUTE) {
        // Without a `clsact` qdisc there are no filters.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => {
            return Ok(Vec::new());
        }
        answers => answers?,
    };
    let mut filters: Vec<_> = answers.iter().filter_map(|answer| filter(answer)).collect();
    filters.sort_by_key(|filter| filter.priority);
    Ok(filters)
}

/// The filter in one netlink answer, if it has a BPF program.
fn filter(answer: &[u8]) -> Option<Filter> {
    let word = |at: usize| number(answer.get(at..at + 4)?);
    let options = find(answer.get(ABOUT..)?, TCA_OPTIONS)?;
    let program = number(find(options, TCA_BPF_ID)?)?;
    let priority = u16::try_from(word(INFO)? >> 16).ok()?;
    Some(Filter { priority, handle: word(HANDLE_AT)?, program })
}

/// Replaces the program of our filter on `interface` atomically, or creates the filter.
pub(super) fn put(
    program: &mut SchedClassifier,
    interface: &Interface,
) -> Result<(), ProgramError> {
    let handle = TcHandle::from(HANDLE);
    let ingress = TcAttachType::Ingress;
    let ours = SchedClassifierLink::attached(interface.name(), ingress, PRIORITY, handle, None)?;
    if let Ok(id) = program.attach_to_link(ours) {
        stay(program.take_link(id)?);
        return Ok(());
    }
    match qdisc_add_clsact(interface.name()) {
        Err(error) if os_error(&error) != Some(libc::EEXIST) => return Err(error.into()),
        _ => {}
    }
    let options = NlOptions { priority: PRIORITY, handle, classid: None };
    let options = TcAttachOptions::Netlink(options);
    let id = program.attach_with_options(interface.name(), ingress, options)?;
    stay(program.take_link(id)?);
    Ok(())
}

/// Removes a filter from `interface`. The `clsact` qdisc stays, since other software may use it.
pub(super) fn remove(interface: &Interface, priority: u16, handle: u32) -> io::Result<()> {
    let info = u32::from(priority) << 16 | u32::from(EVERY_PROTOCOL.to_be());
    let about = about(interface, handle, info);
    let request = Request::new(libc::RTM_DELTFILTER, libc::NLM_F_ACK, &about);
    request.send(libc::NETLINK_ROUTE).map(drop)
}

/// Forgets `link` without dropping it, because its drop would remove the filter.
fn stay(link: SchedClassifierLink) {
    let _ = ManuallyDrop::new(link);
}

/// `struct tcmsg` of the ingress of `interface`.
fn about(interface: &Interface, handle: u32, info: u32) -> [u8; ABOUT] {
    let mut about = [0; ABOUT];
    let words = [(4, interface.index()), (HANDLE_AT, handle), (12, INGRESS), (INFO, info)];
    for (at, word) in words {
        about[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    about
}

const ABOUT: usize = 20;
const HANDLE_AT: usize = 8;
const INFO: usize = 16;

/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`.
const INGRESS: u32 = 0xffff_fff2;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_ID: u16 = 11;

/// `ETH_P_ALL`.
const EVERY_PROTOCOL: u16 = 3;
