//! Complete messages about values that are invalid.

use super::*;

messages! {
    an_invalid_address_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { src = "10.0.0.300", dst = "example.org" }
"# => r#"
error[TG0010]: `10.0.0.300` is not an address
 --> office.toml:8:17
  |
8 | match = { src = "10.0.0.300", dst = "example.org" }
  |                 ^^^^^^^^^^^^
  |
  = help: write for example "10.0.0.0/8", "10.0.0.1", "10.0.0.1-10.0.0.9" or "2001:db8::/32"

error[TG0010]: `example.org` is not an address
 --> office.toml:8:37
  |
8 | match = { src = "10.0.0.300", dst = "example.org" }
  |                                     ^^^^^^^^^^^^^
  |
  = help: write for example "10.0.0.0/8", "10.0.0.1", "10.0.0.1-10.0.0.9" or "2001:db8::/32""#;
    a_prefix_with_host_bits_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { src = "10.1.2.3/8" }
"# => r#"
error[TG0011]: `10.1.2.3/8` has bits set beyond its prefix
 --> office.toml:8:17
  |
8 | match = { src = "10.1.2.3/8" }
  |                 ^^^^^^^^^^^^
  |
  = help: write "10.0.0.0/8" for all of it, or "10.1.2.3" for that address alone"#;
    a_range_that_ends_before_it_begins_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { src = "10.0.0.9-10.0.0.1", dst_port = "90-80", protocol = "tcp" }
"# => r#"
error[TG0029]: `10.0.0.9-10.0.0.1` ends before it begins
 --> office.toml:8:17
  |
8 | match = { src = "10.0.0.9-10.0.0.1", dst_port = "90-80", protocol = "tcp" }
  |                 ^^^^^^^^^^^^^^^^^^^
  |
  = help: write "10.0.0.1-10.0.0.9"

error[TG0029]: `90-80` ends before it begins
 --> office.toml:8:49
  |
8 | match = { src = "10.0.0.9-10.0.0.1", dst_port = "90-80", protocol = "tcp" }
  |                                                 ^^^^^^^
  |
  = help: write "80-90""#;
    an_invalid_port_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { dst_port = [443, 70000, "http"] }
"# => r#"
error[TG0012]: `70000` is not a port
 --> office.toml:8:28
  |
8 | match = { dst_port = [443, 70000, "http"] }
  |                            ^^^^^
  |
  = help: write a number from 1 to 65535, or a range such as "8000-8080"

error[TG0012]: `http` is not a port
 --> office.toml:8:35
  |
8 | match = { dst_port = [443, 70000, "http"] }
  |                                   ^^^^^^
  |
  = help: write a number from 1 to 65535, or a range such as "8000-8080""#;
    an_invalid_protocol_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { protocol = "quic" }
"# => r#"
error[TG0013]: `quic` is not an IP protocol
 --> office.toml:8:22
  |
8 | match = { protocol = "quic" }
  |                      ^^^^^^
  |
  = help: write a number from 1 to 255, or tcp, udp, icmp, icmpv6, igmp, gre, esp, ah, ospf, sctp, udplite or dccp"#;
    an_invalid_codepoint_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { dscp = "AF14" }
"# => r#"
error[TG0014]: `AF14` is not a DS codepoint
 --> office.toml:8:18
  |
8 | match = { dscp = "AF14" }
  |                  ^^^^^^
  |
  = help: write a number from 0 to 63, or EF, VA, LE, DF, CS0 to CS7 or AF11 to AF43"#;
    a_vlan_out_of_range_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { vlan = [1, 4095] }
"# => r#"
error[TG0015]: `4095` is not a VLAN identifier
 --> office.toml:8:22
  |
8 | match = { vlan = [1, 4095] }
  |                      ^^^^
  |
  = help: write a number from 1 to 4094, or a range such as "100-199""#;
    an_inner_vlan_out_of_range_is_refused_and_a_third_tag: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { vlan = { outer = 100, inner = 4095, third = 3 } }
"# => r#"
error[TG0015]: `4095` is not a VLAN identifier
 --> office.toml:8:41
  |
8 | match = { vlan = { outer = 100, inner = 4095, third = 3 } }
  |                                         ^^^^
  |
  = help: write a number from 1 to 4094, or a range such as "100-199"

error[TG0002]: `third` is not a field of `vlan`
 --> office.toml:8:47
  |
8 | match = { vlan = { outer = 100, inner = 4095, third = 3 } }
  |                                               ^^^^^
  |
  = help: there are: outer, inner"#;
    an_empty_list_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { src = [] }
"# => r#"
error[TG0016]: the list is empty and would match nothing
 --> office.toml:8:17
  |
8 | match = { src = [] }
  |                 ^^
  |
  = help: an empty list would match nothing: write its values, or leave the field out to match everything"#;
    ports_of_a_protocol_without_ports_are_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { protocol = ["tcp", "esp"], dst_port = 500 }
"# => r#"
error[TG0024]: `esp` has no ports
 --> office.toml:8:49
  |
8 | match = { protocol = ["tcp", "esp"], dst_port = 500 }
  |                              ----- the protocol ^^^
  |
  = help: leave the ports out, or match the protocols tcp and udp only"#;
    a_name_that_metrics_cannot_carry_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web traffic"
action = "shape"
profile = { mean = "5 Mbit/s" }
"# => r#"
error[TG0017]: `web traffic` cannot name a policy
 --> office.toml:5:8
  |
5 | name = "web traffic"
  |        ^^^^^^^^^^^^^
  |
  = help: write 1 to 64 letters, digits, dots, dashes and underscores: names appear in metrics and commands"#;
    two_policies_of_one_name_are_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
[[policy]]
name = "web"
action = "pass"
"# => r#"
error[TG0018]: two policies are named `web`
 --> office.toml:9:8
  |
5 | name = "web"
  |        ----- the first one
...
9 | name = "web"
  |        ^^^^^
  |
  = help: give each policy, class and trunk another name"#;
    one_interface_cannot_be_both_ports: r#"[gateway]
lan = "eth0"
wan = "eth0"
"# => r#"
error[TG0019]: `lan` and `wan` are both `eth0`
 --> office.toml:3:7
  |
2 | lan = "eth0"
  |       ------ the other
3 | wan = "eth0"
  |       ^^^^^^
  |
  = help: name two interfaces: the one towards the users and the one towards the Internet"#;
    an_invalid_interface_name_is_refused: r#"[gateway]
lan = "an-interface-too-long"
wan = "eth0"
"# => r#"
error[TG0017]: `an-interface-too-long` cannot be an interface
 --> office.toml:2:7
  |
2 | lan = "an-interface-too-long"
  |       ^^^^^^^^^^^^^^^^^^^^^^^
  |
  = help: names of interfaces have 1 to 15 characters; `ip link` lists them"#;
    a_burst_below_the_mtu_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s", burst = "1 kB" }
"# => r#"
error[TG0020]: a burst of 1 kB is smaller than a full-size packet (1514 B), which would wait forever
 --> office.toml:7:40
  |
7 | profile = { mean = "5 Mbit/s", burst = "1 kB" }
  |                                        ^^^^^^
  |
  = help: make it at least 1514 B"#;
    a_peak_below_the_mean_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s", peak = "1 Mbit/s" }
"# => r#"
error[TG0021]: the peak rate (1 Mbit/s) is below the mean rate (5 Mbit/s)
 --> office.toml:7:39
  |
7 | profile = { mean = "5 Mbit/s", peak = "1 Mbit/s" }
  |                    ----------         ^^^^^^^^^^
  |                    |
  |                    the mean rate
  |
  = help: raise it, or leave it out"#;
    a_rate_of_zero_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { down = "0 bit/s" }
[[policy]]
name = "web"
action = "shape"
profile = { mean = "0 Mbit/s" }
"# => r#"
error[TG0022]: a link of rate zero would hold every packet forever
 --> office.toml:4:17
  |
4 | rate = { down = "0 bit/s" }
  |                 ^^^^^^^^^
  |
  = help: give a rate; to block traffic, use a firewall

error[TG0022]: a mean rate of zero would hold every packet forever
 --> office.toml:8:20
  |
8 | profile = { mean = "0 Mbit/s" }
  |                    ^^^^^^^^^^
  |
  = help: give a rate, or drop the traffic elsewhere"#;
    a_burst_beyond_the_bucket_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s", burst = "2000 MiB" }
"# => r#"
error[TG0023]: a burst of 2000 MiB is more than a bucket holds
 --> office.toml:7:40
  |
7 | profile = { mean = "5 Mbit/s", burst = "2000 MiB" }
  |                                        ^^^^^^^^^^
  |
  = help: make it at most 1 GiB"#;
    shaping_needs_a_profile: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
"# => r#"
error[TG0003]: `profile` is missing in [[policy]]
 --> office.toml:4:1
  |
4 | [[policy]]
  | ^^^^^^^^^^
  |
  = help: say how much is in profile: profile = { mean = "20 Mbit/s" }"#;
    a_weight_of_zero_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
weights = [{ match = { src = "10.0.0.1" }, weight = 0 }]
"# => r#"
error[TG0025]: a flow of weight zero would never be served
 --> office.toml:8:53
  |
8 | weights = [{ match = { src = "10.0.0.1" }, weight = 0 }]
  |                                                     ^
  |
  = help: the smallest weight is 1; to exclude flows, match them with another policy"#;
    police_mark_needs_a_codepoint_for_packets_out_of_profile: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "police-mark"
profile = { mean = "5 Mbit/s" }
"# => r#"
error[TG0026]: police-mark needs the codepoint of packets out of profile
 --> office.toml:6:10
  |
6 | action = "police-mark"
  |          ^^^^^^^^^^^^^
  |
  = help: write a codepoint for packets out of profile: mark = { in = "AF11", out = "AF12" }"#;
    a_field_that_the_action_does_not_use_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "pass"
profile = { mean = "5 Mbit/s" }
mark = { out = "DF" }
"# => r#"
error[TG0027]: `profile` has no meaning with this action
 --> office.toml:7:11
  |
6 | action = "pass"
  |          ------ the action
7 | profile = { mean = "5 Mbit/s" }
  |           ^^^^^^^^^^^^^^^^^^^^^
  |
  = help: leave the field out, or choose the action that uses it

error[TG0027]: `mark` has no meaning with this action
 --> office.toml:8:8
  |
6 | action = "pass"
  |          ------ the action
7 | profile = { mean = "5 Mbit/s" }
8 | mark = { out = "DF" }
  |        ^^^^^^^^^^^^^^
  |
  = help: leave the field out, or choose the action that uses it"#;
    a_policy_that_can_never_match_causes_a_warning: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "all"
action = "shape"
profile = { mean = "5 Mbit/s" }
priority = 5
match = { dst = "10.0.0.0/8" }
[[policy]]
name = "one"
action = "pass"
match = { dst = "10.0.0.1", protocol = "tcp", dst_port = 80 }
"# => r#"
warning[TG0028]: policy `one` can never match
  --> office.toml:11:8
   |
 5 | name = "all"
   |        ----- this policy has precedence, and matches all its packets
...
11 | name = "one"
   |        ^^^^^
   |
   = help: a policy with precedence matches all its packets: raise the priority of this policy, narrow the other, or remove this one"#;
    all_errors_are_reported_at_once: r#"[gateway]
lan = "eth1"
wann = "eth0"
[[policy]]
name = "web"
action = "shap"
match = { vlan = 5000 }
profile = { mean = "5", peak = "1 Mbit/s" }
"# => r#"
error[TG0003]: `wan` is missing in [gateway]
 --> office.toml:1:1
  |
1 | [gateway]
  | ^^^^^^^^^
  |
  = help: add it; `tidegate init` writes a whole file to start from

error[TG0002]: `wann` is not a field of [gateway]
 --> office.toml:3:1
  |
3 | wann = "eth0"
  | ^^^^
  |
  = help: did you mean `wan`? there are: lan, wan, rate, overhead, queue, marking, scheduler, buffer, shaping_interval, shaping_triggers, fragments_without_first, heartbeat, packets, flows, backend

error[TG0008]: `shap` is not an action
 --> office.toml:6:10
  |
6 | action = "shap"
  |          ^^^^^^
  |
  = help: did you mean `shape`? there are: shape, police-mark, police-drop, pass

error[TG0015]: `5000` is not a VLAN identifier
 --> office.toml:7:18
  |
7 | match = { vlan = 5000 }
  |                  ^^^^
  |
  = help: write a number from 1 to 4094, or a range such as "100-199"

error[TG0005]: `5` has no unit
 --> office.toml:8:20
  |
8 | profile = { mean = "5", peak = "1 Mbit/s" }
  |                    ^^^
  |
  = help: write for example "20 Mbit/s""#;
}

/// Catches: a `max_packet` that is read but has no effect; a missing lower or upper limit; a burst
/// smaller than `max_packet`.
#[test]
fn max_packet_is_within_its_range_and_fits_into_the_burst() {
    let file = |profile: &str| {
        format!(
            "{PORTS}[[policy]]\nname = \"a\"\naction = \"police-drop\"\n\
             profile = {{ mean = \"5 Mbit/s\", {profile} }}\n"
        )
    };
    let longest = |profile: &str| {
        let config = parsed(&file(profile));
        config.policies[0].action.conditioning().unwrap().profile.max_packet()
    };
    assert_eq!(longest("burst = \"9 kB\""), None);
    assert_eq!(longest("max_packet = \"576 B\""), Some(Bytes(576)));
    assert_eq!(longest("max_packet = \"9 kB\", burst = \"9 kB\""), Some(Bytes(9_000)));
    for (wrong, code) in [
        ("max_packet = \"67 B\"", Code::OutOfRange),
        ("max_packet = \"65536 B\"", Code::OutOfRange),
        ("max_packet = \"9001 B\", burst = \"9 kB\"", Code::BurstBelowPacket),
    ] {
        let (config, found) = parse("a.toml", &file(wrong), None);
        let codes: Vec<_> = found.iter().map(|it| it.code).collect();
        assert_eq!((config.is_none(), codes), (true, vec![code]), "{wrong}");
    }
}
