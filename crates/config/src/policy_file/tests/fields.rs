//! Complete messages about fields that cannot be read.

use super::messages;

messages! {
    an_empty_file_lacks_the_gateway: r#""# => r#"
error[TG0003]: `gateway` is missing in the file
 --> office.toml:1:1
  |
1 |
  | ^
  |
  = help: add it; `tidegate init` writes a whole file to start from"#;
    invalid_toml_is_marked_where_it_breaks: r#"[gateway]
lan = "eth1
wan = "eth0"
"# => r#"
error[TG0001]: not TOML: invalid basic string, expected `"`
 --> office.toml:2:12
  |
2 | lan = "eth1
  |            ^
  |
  = help: mend the marked place; strings stand in quotes, tables in [brackets]"#;
    a_key_given_twice_is_marked: r#"[gateway]
lan = "eth1"
lan = "eth2"
wan = "eth0"
"# => r#"
error[TG0001]: not TOML: duplicate key
 --> office.toml:3:1
  |
3 | lan = "eth2"
  | ^^^
  |
  = help: mend the marked place; strings stand in quotes, tables in [brackets]"#;
    a_misspelt_field_gets_a_suggestion: r#"[gateway]
lan = "eth1"
wan = "eth0"
heartbeet = "50 ms"
"# => r#"
error[TG0002]: `heartbeet` is not a field of [gateway]
 --> office.toml:4:1
  |
4 | heartbeet = "50 ms"
  | ^^^^^^^^^
  |
  = help: did you mean `heartbeat`? there are: lan, wan, rate, overhead, queue, marking, scheduler, buffer, shaping_interval, shaping_triggers, fragments_without_first, heartbeat, packets, flows, backend"#;
    a_table_that_does_not_exist_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[tunnel]]
name = "office"
"# => r#"
error[TG0002]: `tunnel` is not a field of the file
 --> office.toml:4:3
  |
4 | [[tunnel]]
  |   ^^^^^^
  |
  = help: there are: gateway, policy, class, trunk, include, source"#;
    a_missing_field_is_named: r#"[gateway]
lan = "eth1"
"# => r#"
error[TG0003]: `wan` is missing in [gateway]
 --> office.toml:1:1
  |
1 | [gateway]
  | ^^^^^^^^^
  |
  = help: add it; `tidegate init` writes a whole file to start from"#;
    a_value_of_the_wrong_type_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
packets = "many"
heartbeat = true
"# => r#"
error[TG0004]: expected a whole number without quotes, found a string
 --> office.toml:4:11
  |
4 | packets = "many"
  |           ^^^^^^
  |
  = help: write a value of the type in the message; quantities and names are strings in quotes

error[TG0004]: expected a string such as "10 ms", found true or false
 --> office.toml:5:13
  |
5 | heartbeat = true
  |             ^^^^
  |
  = help: write a value of the type in the message; quantities and names are strings in quotes"#;
    a_policy_in_single_brackets_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[policy]
name = "web"
"# => r#"
error[TG0004]: expected a list; a table in a list has double brackets: [[policy]], found a table
 --> office.toml:4:1
  |
4 | [policy]
  | ^^^^^^^^
  |
  = help: write a value of the type in the message; quantities and names are strings in quotes"#;
    a_bare_number_lacks_its_unit: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = 100, down = "500" }
"# => r#"
error[TG0005]: `100` has no unit
 --> office.toml:4:15
  |
4 | rate = { up = 100, down = "500" }
  |               ^^^
  |
  = help: write for example "20 Mbit/s"

error[TG0005]: `500` has no unit
 --> office.toml:4:27
  |
4 | rate = { up = 100, down = "500" }
  |                           ^^^^^
  |
  = help: write for example "20 Mbit/s""#;
    an_ambiguous_unit_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "100 kbps" }
[[policy]]
name = "web"
action = "shape"
profile = { mean = "1 Mbit/s", burst = "10 KB" }
"# => r#"
error[TG0006]: `kbps` is not a unit of rate here
 --> office.toml:4:15
  |
4 | rate = { up = "100 kbps" }
  |               ^^^^^^^^^^
  |
  = help: use one of: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s (`ps` hides whether bits or bytes are meant)

error[TG0006]: `KB` is not a unit of size here
 --> office.toml:8:40
  |
8 | profile = { mean = "1 Mbit/s", burst = "10 KB" }
  |                                        ^^^^^^^
  |
  = help: use one of: B, kB, KiB, MB, MiB, GB, GiB (kB is 1,000 bytes, KiB is 1,024)"#;
    an_invalid_quantity_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "fast" }
"# => r#"
error[TG0007]: `fast` is not a rate
 --> office.toml:4:15
  |
4 | rate = { up = "fast" }
  |               ^^^^^^
  |
  = help: write for example "20 Mbit/s""#;
    a_negative_rate_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "-5 Mbit/s" }
"# => r#"
error[TG0007]: `-5 Mbit/s` is not a rate
 --> office.toml:4:15
  |
4 | rate = { up = "-5 Mbit/s" }
  |               ^^^^^^^^^^^
  |
  = help: write for example "20 Mbit/s""#;
    a_misspelt_action_gets_a_suggestion: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shap"
profile = { mean = "5 Mbit/s" }
"# => r#"
error[TG0008]: `shap` is not an action
 --> office.toml:6:10
  |
6 | action = "shap"
  |          ^^^^^^
  |
  = help: did you mean `shape`? there are: shape, police-mark, police-drop, pass"#;
    a_misspelt_mode_gets_a_suggestion: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
mode = "observed"
"# => r#"
error[TG0008]: `observed` is not a mode
 --> office.toml:8:8
  |
8 | mode = "observed"
  |        ^^^^^^^^^^
  |
  = help: did you mean `observe`? there are: enforce, observe"#;
    an_unknown_direction_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
match = { direction = "upstream" }
"# => r#"
error[TG0008]: `upstream` is not a direction
 --> office.toml:8:23
  |
8 | match = { direction = "upstream" }
  |                       ^^^^^^^^^^
  |
  = help: there are: up, down"#;
    an_unknown_queue_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
queue = "sfq"
"# => r#"
error[TG0008]: `sfq` is not a queue discipline
 --> office.toml:4:9
  |
4 | queue = "sfq"
  |         ^^^^^
  |
  = help: there are: drop-tail, per-flow, red, ered, pi, pie, codel, fq-codel, hosts, sparing, trunk-fifo"#;
    an_unknown_allocation_gets_a_suggestion: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
allocation = "logical-partition"
"# => r#"
error[TG0008]: `logical-partition` is not an allocation
 --> office.toml:8:14
  |
8 | allocation = "logical-partition"
  |              ^^^^^^^^^^^^^^^^^^^
  |
  = help: did you mean `logical-partitions`? there are: partitioned, sequential, fcfs, lru, logical-partitions, drr"#;
    a_wrong_parameter_of_a_mechanism_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
queue = { kind = "drop-tail", limits = "1 MiB" }
"# => r#"
error[TG0030]: `limits` is not a parameter of `drop-tail`
 --> office.toml:4:31
  |
4 | queue = { kind = "drop-tail", limits = "1 MiB" }
  |                               ^^^^^^
  |
  = help: did you mean `limit`? there are: limit"#;
    removed_parameters_are_named_with_a_correction: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
ack_control = { kind = "postack", loss_express = true, retransmissions = "first" }
"# => r#"
error[TG0030]: `loss_express` is not a parameter of `postack` any more
 --> office.toml:8:35
  |
8 | ack_control = { kind = "postack", loss_express = true, retransmissions = "first" }
  |                                   ^^^^^^^^^^^^
  |
  = help: remove it; ACKs that report a loss are now held like all others, as with `loss_express = false`

error[TG0030]: `retransmissions` is not a parameter of `postack` any more
 --> office.toml:8:56
  |
8 | ack_control = { kind = "postack", loss_express = true, retransmissions = "first" }
  |                                                        ^^^^^^^^^^^^^^^
  |
  = help: remove it; retransmitted data now waits like all other data, as with `retransmissions = "in-turn"`"#;
    a_field_under_both_its_names_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[policy]]
name = "web"
action = "shape"
profile = { mean = "5 Mbit/s" }
ack_control = "postack"
signal = "postack"
"# => r#"
error[TG0074]: `signal` is the earlier name of `ack_control`, which is also written
 --> office.toml:9:1
  |
8 | ack_control = "postack"
  | ----------- the same field
9 | signal = "postack"
  | ^^^^^^
  |
  = help: remove `signal`"#;
    a_queue_needs_room: r#"[gateway]
lan = "eth1"
wan = "eth0"
queue = { kind = "drop-tail", limit = "0 B" }
"# => r#"
error[TG0030]: `drop-tail`: `limit` must be above zero: nothing could wait
 --> office.toml:4:9
  |
4 | queue = { kind = "drop-tail", limit = "0 B" }
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  |
  = help: correct the parameter in the message"#;
    a_mechanism_needs_its_kind: r#"[gateway]
lan = "eth1"
wan = "eth0"
queue = { limit = "1 MiB" }
"# => r#"
error[TG0003]: `kind` is missing in the table of a queue discipline
 --> office.toml:4:9
  |
4 | queue = { limit = "1 MiB" }
  |         ^^^^^^^^^^^^^^^^^^^
  |
  = help: add kind = "...", one of: drop-tail, per-flow, red, ered, pi, pie, codel, fq-codel, hosts, sparing, trunk-fifo"#;
    an_unknown_kind_of_link_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
overhead = "docsys"
"# => r#"
error[TG0008]: `docsys` is not a kind of link
 --> office.toml:4:12
  |
4 | overhead = "docsys"
  |            ^^^^^^^^
  |
  = help: did you mean `docsis`? there are: raw, conservative, ethernet, docsis, pppoe-ptm, bridged-ptm, ipoa-vcmux, ipoa-llcsnap, bridged-vcmux, bridged-llcsnap, pppoa-vcmux, pppoa-llc, pppoe-vcmux, pppoe-llcsnap; or { per_packet, min }"#;
    an_unknown_backend_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
backend = "dpdk"
"# => r#"
error[TG0008]: `dpdk` is not a backend
 --> office.toml:4:11
  |
4 | backend = "dpdk"
  |           ^^^^^^
  |
  = help: there are: auto, af-xdp, af-packet"#;
    a_number_out_of_range_is_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
packets = 10
flows = 99999999999999999999
heartbeat = "1 ms"
"# => r#"
error[TG0009]: 10 is out of range for `packets`
 --> office.toml:4:11
  |
4 | packets = 10
  |           ^^
  |
  = help: it goes from 1024 to 1048576

error[TG0009]: the number is too large: the largest is 9223372036854775807
 --> office.toml:5:9
  |
5 | flows = 99999999999999999999
  |         ^^^^^^^^^^^^^^^^^^^^
  |
  = help: write a number within the range in the message or its help

error[TG0009]: this is out of range for `heartbeat`
 --> office.toml:6:13
  |
6 | heartbeat = "1 ms"
  |             ^^^^^^
  |
  = help: it goes from 5 ms, where a busy host begins to leak unshaped bursts, to 10 s"#;
}
