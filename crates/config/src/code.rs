//! The catalogue of errors: for each error a stable code, its meaning and the repair.

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
        "correct the name: the help lists the valid ones. Unknown fields are refused, so that a misspelt limit is noticed";
    MissingField = "TG0003", "a field is missing",
        "add it; `tidegate init` writes a whole file to start from";
    WrongType = "TG0004", "a value of the wrong type",
        "write a value of the type in the message; quantities and names are strings in quotes";
    NoUnit = "TG0005", "a quantity without a unit",
        "add the unit: \"20 Mbit/s\", \"64 KiB\", \"50 ms\"";
    UnknownUnit = "TG0006", "an unknown unit",
        "use bit/s kbit/s Mbit/s Gbit/s Tbit/s, B kB KiB MB MiB GB GiB, or ns us ms s. `kbps` and `KB` are refused, because each has two meanings";
    NotAQuantity = "TG0007", "not a quantity",
        "write a number that is not negative, and its unit";
    UnknownName = "TG0008", "an unknown name",
        "use one of the names in the help";
    OutOfRange = "TG0009", "a number out of range",
        "write a number within the range in the message or its help";
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
        "an empty list would match nothing: write its values, or leave the field out to match everything";
    BadName = "TG0017", "not a usable name",
        "write 1 to 64 letters, digits, dots, dashes and underscores: names appear in metrics and commands";
    DuplicateName = "TG0018", "a name used twice",
        "give each policy, class and trunk another name";
    SamePort = "TG0019", "lan and wan are the same interface",
        "name two interfaces: the one towards the users and the one towards the Internet";
    BurstBelowPacket = "TG0020", "a burst below the MTU",
        "raise the burst to at least one full-size packet: longer packets never conform";
    PeakBelowMean = "TG0021", "a peak rate below the mean rate",
        "raise the peak, or leave it out to let bursts go as fast as the port";
    ZeroRate = "TG0022", "a rate of zero",
        "give a rate; to block traffic, use a firewall";
    BurstTooLarge = "TG0023", "a burst larger than the largest bucket",
        "lower the burst";
    PortsWithoutProtocol = "TG0024", "ports on a protocol that has none",
        "leave the ports out, or match the protocols tcp and udp only";
    ZeroWeight = "TG0025", "a weight of zero",
        "the smallest weight is 1; to exclude flows, match them with another policy";
    NoOutDscp = "TG0026", "police-mark without a codepoint for packets out of profile",
        "write a codepoint for packets out of profile: mark = { in = \"AF11\", out = \"AF12\" }";
    NotOfThisAction = "TG0027", "a field that does not belong to the action",
        "leave the field out, or choose the action that uses it";
    NeverMatches = "TG0028", "a policy that can never match",
        "a policy with precedence matches all its packets: raise the priority of this policy, narrow the other, or remove this one";
    BadRange = "TG0029", "a range that ends before it begins",
        "write the lower end first";
    BadMechanism = "TG0030", "a mechanism with wrong parameters",
        "correct the parameter in the message";
    NotATree = "TG0031", "classes that do not form a tree",
        "give each class a `parent` that is not one of its own parts, or no parent";
    PromisedTooMuch = "TG0032", "guarantees that exceed the rate of the link or of the parent",
        "lower one of the guarantees, or raise that of the parent or the rate of the link";
    CeilingBelowGuarantee = "TG0033", "a ceiling below the guarantee",
        "raise the ceiling, or lower the guarantee";
    NotALeaf = "TG0034", "a policy for a class that has parts",
        "name one of its parts, where packets wait; if no part fits, add one for the remaining packets";
    ClassWithoutRate = "TG0035", "classes on a link without a rate",
        "give the link its rate: rate = { up = \"38 Mbit/s\", down = \"475 Mbit/s\" } in [gateway]";
    BadTrunk = "TG0036", "a contradiction in a trunk",
        "give both ends addresses of one family, and each trunk its own ports";
    NotLive = "TG0037", "a missing field that only a live gateway needs",
        "add the field; `tidegate sim` runs without it";
    DelayBound = "TG0038", "a delay bound that cannot be met",
        "raise the bound, or change the marked line. Smaller bursts, higher ceilings and faster links shorten the delay; so does `queue = \"drop-tail\"`, in which no packet overtakes another";
    CeilingAboveLink = "TG0039", "a ceiling above the rate of the link",
        "lower the ceiling, or leave it out: the link limits the class anyway";
    BadMarking = "TG0040", "a marking that cannot work",
        "put the marking at a link, class or policy with a rate, with the queue `per-flow` or `drop-tail`: these drop only when they are full";

    // Errors in a topology file.
    BadGateway = "TG0041", "a gateway that cannot work",
        "give it one policy file, and hosts behind it";
    NoWay = "TG0042", "hosts that cannot reach each other",
        "add a [[route]] or a [[link]] on the way between them";
    NotInLab = "TG0043", "a topology that a lab cannot build",
        "a lab has hosts and gateways around one network of [[route]]: describe the paths there, or simulate the file with `tidegate sim`";
    UnknownNode = "TG0044", "a node that is not in the file",
        "use one of the names in the help, or add the node";
    LinkToItself = "TG0045", "a link that ends where it begins",
        "name two nodes";
    SecondLink = "TG0046", "a second link from one node to another",
        "keep one; to add capacity, raise its rate";
    Alone = "TG0047", "a node without a link",
        "add a [[link]] to it, or remove it";

    // Class terms that depend on the scheduler.
    NotOfScheduler = "TG0048", "a field that the scheduler does not have",
        "leave the field out, or choose the `scheduler` that has it";
    BadPromise = "TG0049", "a ratio or loss bound without effect",
        "let each ratio refer to another class, without a loop and with a factor above 0; give a loss bound a `buffer` that can overflow";

    // Errors in the tables of the simulator.
    BadRun = "TG0051", "contradictory settings of a run",
        "write a duration above zero, and a shorter warm-up";
    BadTime = "TG0052", "times that contradict each other",
        "put the earlier time first";
    ToItself = "TG0053", "traffic from a host to itself",
        "name two hosts";
    BadPairs = "TG0054", "hosts that cannot be paired",
        "name as many senders as receivers, or a single sender or receiver";
    NotOfThisKind = "TG0055", "a field that does not belong to the kind",
        "leave the field out, or choose the kind that uses it";
    BadDraw = "TG0056", "neither a quantity nor a distribution",
        "write a quantity, { exponential = MEAN }, { uniform = [LEAST, MOST] } or { pareto = { mean = MEAN, shape = 2.5 } }";
    BadPacketSize = "TG0057", "a packet length out of range",
        "write a length within the range in the message";
    BadTrace = "TG0058", "a faulty trace",
        "write lines of a time and a size, in the order of the times: \"20 ms, 160 B\"";
    BadProbe = "TG0059", "a probe of an unknown link or traffic",
        "name one direction of a link, or traffic, that the file has";
    TooMuch = "TG0060", "more than can be simulated at once",
        "write at most the limit in the message";
    BadWindow = "TG0061", "a window or segment size out of range",
        "RFC 7323 permits a `receive_window` from one `mss` to 1023 MiB, and a `window_scale` of at most 14";
    BadTcp = "TG0062", "contradictory TCP settings",
        "correct the field in the message; a profile sets all fields, and each field replaces its value";
    BadRelay = "TG0063", "a relay that cannot forward its traffic",
        "write the relay after the TCP traffic that it forwards. Its senders are the receivers of that traffic; it has as many flows, and a buffer";
    BadAggregate = "TG0064", "an aggregate connection that cannot carry its traffic",
        "write one flow from one gateway to one host, after the TCP traffic that ends at the gateway, and name each traffic in one `of` only";

    // Errors in the file of an aggregate gateway.
    BadAggregateGateway = "TG0065", "an aggregate gateway that cannot work",
        "correct the field in the message; the gateways of the two sites have different addresses and keys";
    BadSource = "TG0066", "a source that cannot be watched",
        "write the fields that `docs/operate/repositories.md` lists for the kind of source";

    // Errors in a scenario file.
    BadChange = "TG0070", "a change of a link without effect",
        "name one direction of a link that the file has, and its new delay, rate, or both";

    // Warnings about settings that the gateway cannot fulfil.
    BurstBelowMean = "TG0071", "a burst too small for the mean rate",
        "raise the burst to the size in the message: the gateway sends up to 100 us late, and tokens beyond the burst are lost";

    AboveLink = "TG0072", "a rate above that of the link",
        "lower the rate, or leave it out: the link limits all traffic to its own rate";
    PortDown = "TG0073", "a port that is down",
        "bring it up: `ip link set PORT up`";

    EarlierName = "TG0074", "a field under its earlier name",
        "write the new name in the message: a later version refuses the earlier one";

    // Errors of the host.
    NoSuchFile = "TG0101", "the file cannot be read or written",
        "check the path and its permissions; policy files are UTF-8";
    NoInterface = "TG0102", "there is no such interface",
        "name an interface of this host; `ip link` lists them";
    NoPrivilege = "TG0103", "not allowed to open the ports",
        "run as root or give the program CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; without them it runs in a user namespace on AF_PACKET";
    NoBackend = "TG0104", "the ports cannot be opened this way",
        "leave `backend` at \"auto\"; `tidegate doctor` lists the abilities of this host";
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
        "leave [gateway] unchanged, or restart: `tidegate run FILE` takes over without an interruption";
    NothingToConfirm = "TG0204", "nothing waits to be confirmed",
        "it was confirmed before, or its time ran out and the earlier policies are in force again: see `tidegate status`";
    UnexpectedAnswer = "TG0205", "the gateway's answer cannot be used",
        "use a `tidegate` of the version that runs";
    BadPacket = "TG0206", "a packet that cannot be explained",
        "write addresses of one family, and ports only with a protocol that has ports";
    Unconfirmed = "TG0207", "an earlier change waits to be confirmed",
        "confirm it with `tidegate confirm`, or wait until it is rolled back";
    NoSocket = "TG0208", "the control socket cannot be opened",
        "choose a path with --socket in an existing directory with write permission";
    BadRequest = "TG0209", "a request the gateway cannot read",
        "send a path, method and JSON body that `docs/operate/api.md` lists";
    ClassHolds = "TG0210", "a class in use",
        "first apply policies that name another class, remove the parts of the class, or wait until its queue is empty";

    TooLarge = "TG0211", "a file or request that is too large",
        "a policy file, and a request with one, has at most 64 MiB, a key file 4 KiB: let one policy match a network instead of many match one host each";
    Busy = "TG0212", "the gateway has too many requests at once",
        "try again in a second; programs should end their connection after an answer";

    NoSet = "TG0213", "a source without a set of policies",
        "`tidegate source` shows the fault of the source";

    NotSaved = "TG0214", "the policy file cannot be saved",
        "the gateway writes a new file and renames it. Give file and folder to the user and group of the gateway. A file that is a bind mount cannot be replaced: mount its folder, writable";

    // Errors of the lab.
    NoLab = "TG0301", "no such lab or host",
        "build one with `tidegate lab up FILE`";
    LabIsUp = "TG0302", "a lab of that name is up",
        "take it down first: `tidegate lab down`";
    LabFailed = "TG0303", "the lab cannot be built",
        "run `tidegate doctor`: it lists the abilities of this host";
    NoTool = "TG0304", "a program is missing",
        "install it: `apt-get install iproute2 util-linux`";

    // All other errors.
    System = "TG0901", "the system refused something",
        "the message names the system call or the file; `tidegate doctor` lists the abilities of this host";
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
