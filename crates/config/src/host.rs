//! What a host has, as far as a policy file must fit it: its interfaces.

use tidegate_core::Bytes;

/// The network interfaces of this host, or of the network namespace this thread is in.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Each of them but the loopback.
    pub interfaces: Vec<Interface>,
}

/// A network interface.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its MTU, if the kernel says.
    pub mtu: Option<u64>,
    /// Whether it is up, if the kernel says.
    pub is_up: Option<bool>,
    /// Whether it is a device and not made by software.
    pub is_device: bool,
    /// Whether the default route leads through it.
    pub has_default_route: bool,
}

/// Destination and source addresses, and the ethertype.
const ETHERNET_HEADER: u64 = 14;

impl Host {
    /// The interface of that name.
    #[must_use]
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// The longest frame that one of the interfaces called `names` carries; `None` if none says.
    #[must_use]
    pub fn longest_frame(&self, names: &[&str]) -> Option<Bytes> {
        let mtus = names.iter().filter_map(|name| self.interface(name)?.mtu);
        mtus.max().map(|mtu| Bytes(mtu + ETHERNET_HEADER))
    }

    /// The ports, if there is only one way to choose them: the WAN has the default route.
    #[must_use]
    pub fn guess_ports(&self) -> Option<(&Interface, &Interface)> {
        let devices = self.interfaces.iter().any(|it| it.is_device);
        let usable = || self.interfaces.iter().filter(|it| it.is_device || !devices);
        let wan = usable().find(|it| it.has_default_route)?;
        let mut others = usable().filter(|it| it.name != wan.name);
        let lan = others.next()?;
        others.next().is_none().then_some((lan, wan))
    }

    /// The names of the ports, LAN first: those given, and the others guessed.
    #[must_use]
    pub fn ports(&self, lan: Option<&str>, wan: Option<&str>) -> Option<[String; 2]> {
        let names = match (lan, wan) {
            (Some(lan), Some(wan)) => [lan, wan],
            _ => {
                let guessed = self.guess_ports()?;
                let (l, w) = (guessed.0.name.as_str(), guessed.1.name.as_str());
                // Where one is given that was guessed to be the other, it was the wrong way round.
                match (lan, wan) {
                    (Some(lan), _) => [lan, if lan == w { l } else { w }],
                    (_, Some(wan)) => [if wan == l { w } else { l }, wan],
                    _ => [l, w],
                }
            }
        };
        Some(names.map(str::to_owned))
    }
}
