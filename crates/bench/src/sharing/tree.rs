//! A class tree, which can be configured in Tidegate and in HTB.

use anyhow::anyhow;
use tidegate_e2e::Testbed;

use crate::live::{Forwarder, tc};
use crate::load::{FRAME, PORT};

/// A class. Leaf classes are numbered in the order of the tree.
#[derive(Clone, Copy)]
pub(super) struct Class {
    /// Index of the parent class; `None` for a class directly below the link.
    pub(super) parent: Option<usize>,
    /// Guaranteed rate in kbit/s.
    pub(super) guarantee: u32,
    pub(super) weight: u32,
}

impl Class {
    /// A class directly below the link.
    pub(super) const fn new(guarantee: u32, weight: u32) -> Self {
        Self { parent: None, guarantee, weight }
    }

    /// A class below another one.
    pub(super) const fn of(parent: usize, guarantee: u32, weight: u32) -> Self {
        Self { parent: Some(parent), guarantee, weight }
    }
}

/// The scheduler that shares the link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sharer {
    Ours,
    Htb,
}

/// Starts a forwarder with the class tree `tree` on a link of `link` Mbit/s. Datagrams to [`PORT`]
/// belong to the first leaf class, and datagrams to the following ports to the next leaf classes.
pub(super) fn forwarder<'a>(
    bed: &'a Testbed,
    sharer: Sharer,
    link: u32,
    tree: &[Class],
) -> anyhow::Result<Forwarder<'a>> {
    match sharer {
        Sharer::Ours => Ok(Forwarder::Gateway(bed.gateway("auto", &policies(link, tree)))),
        Sharer::Htb => {
            bed.bridge();
            tc(bed, &commands(link, tree)).map_err(|reason| anyhow!(reason))?;
            Ok(Forwarder::Kernel)
        }
    }
}

/// The index and the UDP port of each leaf class.
fn leaves(tree: &[Class]) -> impl Iterator<Item = (usize, u16)> {
    let is_leaf = |place: &usize| tree.iter().all(|it| it.parent != Some(*place));
    (0..tree.len()).filter(is_leaf).zip(PORT..)
}

fn policies(link: u32, tree: &[Class]) -> String {
    let mut text = format!("rate = {{ up = \"{link} Mbit/s\" }}\n");
    for (place, Class { parent, guarantee, weight }) in tree.iter().enumerate() {
        let parent = parent.map(|it| format!("parent = \"c{it}\"\n")).unwrap_or_default();
        text += &format!(
            "[[class]]\nname = \"c{place}\"\n{parent}guarantee = \"{guarantee} kbit/s\"\nweight = {weight}\n"
        );
        if leaves(tree).any(|(leaf, _)| leaf == place) {
            text += &format!("queue = {{ kind = \"drop-tail\", limit = \"{QUEUE} B\" }}\n");
        }
    }
    for (place, port) in leaves(tree) {
        text += &format!(
            "[[policy]]\nname = \"p{place}\"\naction = \"pass\"\nclass = \"c{place}\"\n\
             match = {{ protocol = \"udp\", dst_port = {port}, direction = \"up\" }}\n"
        );
    }
    text
}

/// The `tc` commands for HTB. HTB shares excess bandwidth by quanta, here one packet for each unit
/// of weight. With a smaller quantum, a class would send more than its share.
fn commands(link: u32, tree: &[Class]) -> Vec<String> {
    let id = |place: usize| format!("1:{}", 10 + place);
    let mut lines = vec![
        "qdisc add dev wan root handle 1: htb default 99".to_owned(),
        format!("class add dev wan parent 1: classid 1:1 htb rate {link}mbit"),
    ];
    for (place, Class { parent, guarantee, weight }) in tree.iter().enumerate() {
        let parent = parent.map_or("1:1".to_owned(), id);
        lines.push(format!(
            "class add dev wan parent {parent} classid {} htb rate {guarantee}kbit ceil {link}mbit quantum {}",
            id(place),
            FRAME * weight
        ));
    }
    for (place, port) in leaves(tree) {
        let id = id(place);
        lines.push(format!("qdisc add dev wan parent {id} bfifo limit {QUEUE}"));
        lines.push(format!(
            "filter add dev wan parent 1: protocol ip u32 match ip dport {port} 0xffff flowid {id}"
        ));
    }
    lines
}

/// Queue limit of a leaf class in bytes.
const QUEUE: u32 = 150_000;
