//! The network interfaces of a host, which the ports in a policy file must match.

use tidegate_core::Bytes;

/// The network interfaces of this host, or of this thread's network namespace.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// All interfaces except the loopback.
    pub interfaces: Vec<Interface>,
}

/// A network interface.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its MTU, if known.
    pub mtu: Option<u64>,
    /// `true` if it is up; `None` if unknown.
    pub is_up: Option<bool>,
    /// `true` for hardware, `false` for an interface made by software, such as a bridge.
    pub is_device: bool,
    /// `true` if the default route uses it.
    pub has_default_route: bool,
}

/// Length of an Ethernet header in bytes: destination and source address, and ethertype.
const ETHERNET_HEADER: u64 = 14;

impl Host {
    /// The interface with this name.
    #[must_use]
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// The longest frame that any of the interfaces `names` carries; `None` if no MTU is known.
    #[must_use]
    pub fn longest_frame(&self, names: &[&str]) -> Option<Bytes> {
        let mtus = names.iter().filter_map(|name| self.interface(name)?.mtu);
        mtus.max().map(|mtu| Bytes(mtu + ETHERNET_HEADER))
    }

    /// LAN and WAN port, if only one choice is possible. The interface with the default route is
    /// the WAN port.
    #[must_use]
    pub fn guess_ports(&self) -> Option<(&Interface, &Interface)> {
        let devices = self.interfaces.iter().any(|it| it.is_device);
        let usable = || self.interfaces.iter().filter(|it| it.is_device || !devices);
        let wan = usable().find(|it| it.has_default_route)?;
        let mut others = usable().filter(|it| it.name != wan.name);
        let lan = others.next()?;
        others.next().is_none().then_some((lan, wan))
    }

    /// The names of the ports, LAN first. If only one name is given, guesses the other name.
    #[must_use]
    pub fn ports(&self, lan: Option<&str>, wan: Option<&str>) -> Option<[String; 2]> {
        let names = match (lan, wan) {
            (Some(lan), Some(wan)) => [lan, wan],
            _ => {
                let guessed = self.guess_ports()?;
                let (l, w) = (guessed.0.name.as_str(), guessed.1.name.as_str());
                // The given port may be the guess for the opposite side. Then the other guess is
                // the missing port.
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
