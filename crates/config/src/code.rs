//! The catalogue of errors: a stable code for each, its meaning and its repair.

/// Defines [`Code`] from the catalogue.
macro_rules! catalogue {
    ($($variant:ident = $code:literal, $title:literal, $repair:literal;)+) => {
        /// The stable code of an error.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[expect(missing_docs, reason = "the title says it")]
        pub enum Code { $($variant,)+ }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The printed code.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// A short description of the error.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }

            /// The repair.
            #[must_use]
            pub const fn repair(self) -> &'static str {
                match self { $(Self::$variant => $repair,)+ }
            }
        }
    };
}

catalogue! {
    // Errors in the text of a policy file.
    Syntax = "TG0001", "not TOML",
        "mend the marked place; strings stand in quotes, tables in [brackets]";
    UnknownField = "TG0002", "unknown field or table",
        "correct the name; the message lists those there are. Unknown fields are refused so that a misspelt limit cannot go unnoticed";
    MissingField = "TG0003", "a field is missing",
        "add it; `tidegate init` writes a whole file to start from";
    WrongType = "TG0004", "a value of the wrong type",
        "write the type the message names; quantities and names are strings in quotes";
    NoUnit = "TG0005", "a quantity without a unit",
        "add the unit: \"20 Mbit/s\", \"64 KiB\", \"50 ms\"";
    UnknownUnit = "TG0006", "an unknown unit",
        "use bit/s kbit/s Mbit/s Gbit/s Tbit/s, B kB KiB MB MiB GB GiB, or ns us ms s. `kbps` and `KB` are refused because they are read in two ways";
    NotAQuantity = "TG0007", "not a quantity",
        "write a number that is not negative, and its unit";
    UnknownName = "TG0008", "a name that stands for nothing",
        "use one of the names the message lists";
    OutOfRange = "TG0009", "a number out of range",
        "stay within the range the message gives";
    BadAddress = "TG0010", "not an address, prefix or range of addresses",
        "write an address (10.0.0.1), a prefix (10.0.0.0/8, 2001:db8::/32) or a range (10.0.0.1-10.0.0.9)";
    HostBits = "TG0011", "a prefix with host bits",
        "clear the bits beyond the prefix length, or write the single address without a length";
    BadPort = "TG0012", "not a port or range of ports",
        "write a port from 1 to 65535, or a range such as \"8000-8999\"";
    BadProtocol = "TG0013", "not an IP protocol",
        "write a name such as \"tcp\", or a number from 1 to 255";
    BadDscp = "TG0014", "not a DS codepoint",
        "write a name such as \"EF\" or \"AF11\", or a number from 0 to 63";
    BadVlan = "TG0015", "not a VLAN identifier",
        "write a number from 1 to 4094, a range, or \"none\" for untagged frames";
    EmptyList = "TG0016", "an empty list",
        "an empty list would match nothing: list what is meant, or leave the field out to match anything";
    BadName = "TG0017", "not a usable name",
        "names are 1 to 64 letters, digits, dots, dashes and underscores, so that metrics and commands can carry them";
    DuplicateName = "TG0018", "a name used twice",
        "give each policy, and each class, a name of its own";
    SamePort = "TG0019", "lan and wan are the same interface",
        "name two interfaces: the one towards the users and the one towards the Internet";
    BurstBelowPacket = "TG0020", "a burst below the MTU",
        "raise the burst to at least one full-size packet, which could otherwise never leave";
    PeakBelowMean = "TG0021", "a peak rate below the mean rate",
        "raise the peak, or leave it out to let bursts go as fast as the port";
    ZeroRate = "TG0022", "a rate of zero",
        "give a rate; to block traffic, use a firewall";
    BurstTooLarge = "TG0023", "a burst larger than a bucket holds",
        "lower the burst";
    PortsWithoutProtocol = "TG0024", "ports on a protocol that has none",
        "leave the ports out, or match tcp and udp only";
    ZeroWeight = "TG0025", "a weight of zero",
        "the least weight is 1; to keep flows out, match them by a policy of their own";
    NoOutDscp = "TG0026", "police-mark without a codepoint for what is out of profile",
        "say how the two are told apart: mark = { in = \"AF11\", out = \"AF12\" }";
    NotOfThisAction = "TG0027", "a field that does not belong to the action",
        "leave the field out, or choose the action that uses it";
    NeverMatches = "TG0028", "a policy that can never match",
        "a policy that takes precedence matches everything this one does: raise its priority, narrow the other, or remove it";
    BadRange = "TG0029", "a range that ends before it begins",
        "write the lower end first";
    BadMechanism = "TG0030", "a mechanism with wrong parameters",
        "correct the parameter the message names";
    NotATree = "TG0031", "classes that are no tree",
        "give each class a `parent` that is a class and does not lie below it, or none";
    PromisedTooMuch = "TG0032", "guarantees that add up to more than there is",
        "lower one of the guarantees, or raise that of the parent or the rate of the link";
    CeilingBelowGuarantee = "TG0033", "a ceiling below the guarantee",
        "raise the ceiling, or lower the guarantee";
    NotALeaf = "TG0034", "a policy for a class that has parts",
        "name one of its parts: packets wait there; add one for what is left, if there is none";
    ClassWithoutRate = "TG0035", "classes on a link without a rate",
        "give the link its rate: rate = { up = \"38 Mbit/s\", down = \"475 Mbit/s\" } in [gateway]";
    BadTrunk = "TG0036", "a trunk that cannot be",
        "give both ends an address of the same family, each trunk ports of its own, and its packets no class";
    NotLive = "TG0037", "what a live gateway needs and the simulator does not",
        "add it; `tidegate sim` runs without it";
    DelayBound = "TG0038", "a delay bound that cannot be met",
        "raise the bound, or mend the marked line: smaller bursts and faster links and ceilings make it shorter, and `queue = \"drop-tail\"`, in which no later packet goes first";
    CeilingAboveLink = "TG0039", "a ceiling above the rate of the link",
        "lower the ceiling, or leave it out: the link bounds it";
    BadMarking = "TG0040", "a marking that cannot work",
        "put it where packets wait for a rate, in a queue that drops them only when it is full: `per-flow` or `drop-tail`";

    // Errors in a topology file.
    BadGateway = "TG0041", "a gateway that cannot work",
        "give it one policy file, and hosts behind it";
    NoWay = "TG0042", "hosts that cannot reach each other",
        "add a [[route]] or a [[link]] on the way between them";
    NotInLab = "TG0043", "what a lab cannot build",
        "a lab has hosts and gateways around one network of [[route]]: describe the way there, or simulate the file with `tidegate sim`";
    UnknownNode = "TG0044", "a node that is not in the file",
        "use one of the names the message lists, or add the node";
    LinkToItself = "TG0045", "a link that ends where it begins",
        "name two nodes";
    SecondLink = "TG0046", "a second link from one node to another",
        "keep one; to add capacity, raise its rate";
    Alone = "TG0047", "a node that nothing leads to",
        "add a [[link]] to it, or remove it";

    // Class terms that depend on the scheduler.
    NotOfScheduler = "TG0048", "a field that the scheduler does not have",
        "leave the field out, or choose the `scheduler` that has it";
    BadPromise = "TG0049", "a ratio or loss bound that says nothing",
        "let each ratio refer to another class, in no circle and with a factor above 0; give a loss bound a `buffer` that can be full";

    // Errors in the tables of the simulator.
    BadRun = "TG0051", "a run that cannot be",
        "give a duration above zero, and a warm-up shorter than it";
    BadTime = "TG0052", "times that contradict each other",
        "put the earlier time first";
    ToItself = "TG0053", "traffic from a host to itself",
        "name two hosts";
    BadPairs = "TG0054", "hosts that cannot be paired",
        "name as many senders as receivers, or one of either";
    NotOfThisKind = "TG0055", "a field that does not belong to the kind",
        "leave the field out, or choose the kind that uses it";
    BadDraw = "TG0056", "not a way to draw a quantity",
        "write a quantity, { exponential = MEAN }, { uniform = [LEAST, MOST] } or { pareto = { mean = MEAN, shape = 2.5 } }";
    BadPacketSize = "TG0057", "a packet that cannot be that long",
        "stay within the range the message gives";
    BadTrace = "TG0058", "a trace that cannot be followed",
        "write lines of a time and a size, in the order of the times: \"20 ms, 160 B\"";
    BadProbe = "TG0059", "a probe of what is not there",
        "name a way of a link, or traffic, that the file has";
    TooMuch = "TG0060", "more than can be simulated at once",
        "stay within the limit the message gives";
    BadWindow = "TG0061", "a window or segment size that cannot be",
        "stay within what RFC 7323 can show: `receive_window` from one `mss` to 1023 MiB, `window_scale` at most 14";
    BadTcp = "TG0062", "TCP settings that cannot be",
        "correct the field the message names; a profile has all of them, and each may be set otherwise";
    BadRelay = "TG0063", "a relay that cannot hand on what it should",
        "write it after the TCP traffic that it hands on, with its receivers as senders, as many flows, and a buffer";
    BadAggregate = "TG0064", "an aggregate connection that cannot carry its traffic",
        "write one flow from one gateway to one host, after the TCP traffic that ends at the gateway, and name each traffic in one `of` only";

    // Errors in the file of an aggregate gateway.
    BadAggregateGateway = "TG0065", "an aggregate gateway that cannot work",
        "correct the field the message names; the gateways of both sites have addresses and keys of their own";
    BadSource = "TG0066", "a source that cannot be watched",
        "see `docs/operate/repositories.md`: each kind of source has its own fields";

    // Errors in a scenario file.
    BadChange = "TG0070", "a change of a link that cannot be",
        "name a way of a link that the file has, and its new delay, its new rate, or both";

    // Warnings about settings that the gateway cannot fulfil.
    BurstBelowMean = "TG0071", "a burst too small for the mean rate",
        "raise the burst to what the message gives: the gateway sends up to 100 us late, and tokens beyond the burst are lost";

    AboveLink = "TG0072", "a rate above that of the link",
        "lower the rate, or leave it out: the link holds all traffic to its own rate";
    PortDown = "TG0073", "a port that is down",
        "take it up: `ip link set PORT up`";

    EarlierName = "TG0074", "a field under its earlier name",
        "write the name in the message; the earlier one will be refused in a later version";

    // Errors of the host.
    NoSuchFile = "TG0101", "the file cannot be read or written",
        "check the path and its permissions; policy files are UTF-8";
    NoInterface = "TG0102", "there is no such interface",
        "name an interface of this host; `ip link` lists them";
    NoPrivilege = "TG0103", "not allowed to open the ports",
        "run as root or give the program CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; without them it runs in a user namespace on AF_PACKET";
    NoBackend = "TG0104", "the ports cannot be opened this way",
        "leave `backend` at \"auto\", or see `tidegate doctor` for what this host can do";
    FileExists = "TG0105", "the file exists",
        "choose another name or remove it first; nothing is overwritten";
    BadRate = "TG0106", "not a rate",
        "write a rate such as \"100 Mbit/s\"";
    NoPorts = "TG0107", "the ports cannot be guessed",
        "name them: --lan eth1 --wan eth0";
    UnequalMtu = "TG0108", "ports with different MTUs",
        "give both ports the same MTU: `ip link set PORT mtu N`. A frame longer than the other port sends would be lost";
    BadKey = "TG0109", "the key of a trunk cannot be used",
        "make one with `(umask 077; openssl rand -hex 32 > FILE)`, and give the same to both gateways";
    BadIdentity = "TG0110", "the key of an aggregate gateway cannot be used",
        "make one with `tidegate aggregate key FILE` at each site, and write what it prints into the other's file as `peer_key`";
    NoTransparency = "TG0111", "connections cannot be taken transparently",
        "run as root on a kernel with nftables and TPROXY, and install the tools: `apt-get install nftables iproute2`";

    // Errors of the running gateway.
    NoGateway = "TG0201", "no gateway answers",
        "start one with `tidegate run FILE`, or name its socket with --socket";
    AlreadyRuns = "TG0202", "a gateway runs already",
        "change it with `tidegate apply FILE`, stop it first, or give this one another --socket";
    NeedsRestart = "TG0203", "a setting that cannot change while the gateway runs",
        "leave [gateway] as it runs, or restart: `tidegate run FILE` takes over without cutting the link";
    NothingToConfirm = "TG0204", "nothing waits to be confirmed",
        "it was confirmed before, or the time was over and the policies before it run again: see `tidegate status`";
    UnexpectedAnswer = "TG0205", "the gateway's answer cannot be used",
        "use a `tidegate` of the version that runs";
    BadPacket = "TG0206", "a packet that cannot be explained",
        "give addresses of one family, and ports only with a protocol that has them";
    Unconfirmed = "TG0207", "an earlier change waits to be confirmed",
        "confirm it with `tidegate confirm`, or wait until it is rolled back";
    NoSocket = "TG0208", "the control socket cannot be opened",
        "choose a path with --socket in a directory that exists and that you may write to";
    BadRequest = "TG0209", "a request the gateway cannot read",
        "send a path, method and JSON body that `docs/operate/api.md` lists";
    ClassHolds = "TG0210", "a class that others need",
        "packets wait at classes without parts, and those of a policy where it says: apply policies that name another class first, remove the parts first, or wait until what waits has left";

    TooLarge = "TG0211", "a file or request that is too large",
        "a policy file, and a request with one, has at most 64 MiB, a key file 4 KiB: let one policy match a network instead of many match one host each";
    Busy = "TG0212", "the gateway has too many requests at once",
        "try again in a second; programs should end their connection after an answer";

    NoSet = "TG0213", "a source without a set of policies",
        "`tidegate source` says what keeps the source from delivering its policies";

    NotSaved = "TG0214", "the policy file cannot be saved",
        "the gateway replaces the file, so it must write to its folder, and give files to its owner and group: let the file belong to the user and group of the gateway. A read-only folder, or a single file that is a mount (bind mount), cannot be replaced: mount its folder, writable";

    // Errors of the lab.
    NoLab = "TG0301", "no such lab or host",
        "build one with `tidegate lab up FILE`";
    LabIsUp = "TG0302", "a lab of that name is up",
        "take it down first: `tidegate lab down`";
    LabFailed = "TG0303", "the lab cannot be built",
        "see `tidegate doctor` for what this host can do";
    NoTool = "TG0304", "a program is missing",
        "install it: `apt-get install iproute2 util-linux`";

    // All other errors.
    System = "TG0901", "the system refused something",
        "the message says what; see `tidegate doctor` for what this host can do";
}

impl Code {
    /// The code with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name().eq_ignore_ascii_case(name))
    }
}

/// The catalogue as a page of the manual.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Errors\n\nEvery error has a code that stays. `tidegate explain TG0020` prints its line.\n\n\
         | code | what is wrong | what to do |\n|---|---|---|\n",
    );
    for code in Code::ALL {
        page += &format!("| {} | {} | {} |\n", code.name(), code.title(), code.repair());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(Code::ALL.is_sorted_by(|a, b| a.name() < b.name()));
    }
}
