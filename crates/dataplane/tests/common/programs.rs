//! BPF programs that tests attach in addition to the gateway's: foreign programs, and programs of
//! an earlier version of Tidegate (commit ae462d3).

use aya::maps::{Array, DevMap, Map, MapData};
use aya::programs::links::FdLink;
use aya::programs::tc::{NlOptions, TcAttachOptions, TcHandle, qdisc_add_clsact};
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use tidegate_dataplane::Interface;
use tidegate_dataplane::fail_to_wire::Mode;

static FOREIGN: &[u8] = include_bytes_aligned!("../../../../bpf/foreign.bpf.o");
/// The BPF objects that were part of Tidegate at commit ae462d3.
static WIRE: &[u8] = include_bytes_aligned!("../objects/ae462d3/wire.bpf.o");
static SWALLOW: &[u8] = include_bytes_aligned!("../objects/ae462d3/swallow.bpf.o");

/// Foreign programs, detached when dropped.
pub(crate) struct Foreign(Ebpf);

impl Foreign {
    pub(crate) fn load() -> Self {
        let mut object = EbpfLoader::new().load(FOREIGN).unwrap();
        let pass: &mut Xdp = object.program_mut("pass_all").unwrap().try_into().unwrap();
        pass.load().unwrap();
        let drop: &mut SchedClassifier =
            object.program_mut("drop_all").unwrap().try_into().unwrap();
        drop.load().unwrap();
        Self(object)
    }

    /// Attaches an XDP program that passes every frame up the stack.
    pub(crate) fn attach_xdp(&mut self, interface: &Interface) {
        let pass: &mut Xdp = self.0.program_mut("pass_all").unwrap().try_into().unwrap();
        pass.attach_to_if_index(interface.index(), XdpMode::Driver).unwrap();
    }

    /// Attaches a tc program that drops every frame, before all other TCX programs.
    pub(crate) fn attach_tcx(&mut self, interface: &Interface) {
        let first = TcAttachOptions::TcxOrder(LinkOrder::first());
        self.attach_tc(interface, first);
    }

    /// Attaches a tc program that drops every frame, before all other filters.
    pub(crate) fn attach_filter(&mut self, interface: &Interface) {
        // The result is ignored: the gateway may already have created the qdisc.
        let _ = qdisc_add_clsact(interface.name());
        let first = NlOptions { priority: 1, handle: TcHandle::from(1), classid: None };
        self.attach_tc(interface, TcAttachOptions::Netlink(first));
    }

    fn attach_tc(&mut self, interface: &Interface, how: TcAttachOptions) {
        let drop: &mut SchedClassifier =
            self.0.program_mut("drop_all").unwrap().try_into().unwrap();
        drop.attach_with_options(interface.name(), TcAttachType::Ingress, how).unwrap();
    }
}

/// A program attached by a BPF link, as in commit ae462d3, which pinned the link. This value keeps
/// the link open instead. To other processes, it looks like a pin in another mount namespace.
pub(crate) struct Former {
    life: Array<MapData, u64>,
    _link: FdLink,
    _object: Ebpf,
}

impl Former {
    /// Attaches the XDP program to `port`. The program redirects frames to `peer`; without `peer`,
    /// it passes them to the tc program.
    pub(crate) fn wire(port: &Interface, mode: Mode, peer: Option<&Interface>) -> Self {
        let mut object = EbpfLoader::new().load(WIRE).unwrap();
        if let Some(peer) = peer {
            let mut map = DevMap::try_from(object.map_mut("peer").unwrap()).unwrap();
            map.set(0, peer.index(), None, 0).unwrap();
        }
        let program: &mut Xdp = object.program_mut("wire").unwrap().try_into().unwrap();
        program.load().unwrap();
        let mode = match mode {
            Mode::Native => XdpMode::Driver,
            Mode::Generic => XdpMode::Skb,
        };
        let id = program.attach_to_if_index(port.index(), mode).unwrap();
        let link = program.take_link(id).unwrap().try_into().unwrap();
        Self::of(object, link)
    }

    /// Attaches the tc program to `port`. It redirects frames to `peer`.
    pub(crate) fn swallow(port: &Interface, peer: &Interface) -> Self {
        let index = peer.index();
        let mut loader = EbpfLoader::new();
        let mut object = loader.override_global("peer", &index, true).load(SWALLOW).unwrap();
        let program: &mut SchedClassifier =
            object.program_mut("swallow").unwrap().try_into().unwrap();
        program.load().unwrap();
        let options = TcAttachOptions::TcxOrder(LinkOrder::default());
        let ingress = TcAttachType::Ingress;
        let id = program.attach_with_options(port.name(), ingress, options).unwrap();
        let link = program.take_link(id).unwrap().try_into().unwrap();
        Self::of(object, link)
    }

    fn of(mut object: Ebpf, link: FdLink) -> Self {
        let Some(map @ Map::Array(_)) = object.take_map("life") else { panic!("no word of life") };
        Self { life: Array::try_from(map).unwrap(), _link: link, _object: object }
    }

    /// Sets the deadline to the past, as if the gateway had died.
    pub(crate) fn killed(&mut self) {
        self.life.set(0, 1_u64, 0).unwrap();
    }
}
