//! Tests of classes, and of findings about classes that do not form a tree.

use super::{PORTS, messages, parsed};
use tidegate_core::Rate;
use tidegate_core::packet::Direction;

#[test]
fn classes_have_their_rates_each_way_and_their_defaults() {
    let config = parsed(&format!(
        "{PORTS}rate = {{ up = \"10 Mbit/s\", down = \"20 Mbit/s\" }}\nqueue = \"drop-tail\"\n\
         [[class]]\nname = \"voice\"\nparent = \"office\"\nguarantee = \"2 Mbit/s\"\npriority = 7\n\
         [[class]]\nname = \"office\"\nceiling = {{ up = \"5 Mbit/s\" }}\nweight = 3\n\
         [[policy]]\nname = \"all\"\naction = \"pass\"\nclass = \"voice\"\n"
    ));
    let [office, voice] = config.classes.classes() else { panic!("{:?}", config.classes) };
    assert_eq!((office.name.as_str(), voice.parent.as_deref()), ("office", Some("office")));
    assert_eq!(office.guarantee, [Rate::from_mbps(2); 2]); // The guarantee of its subclass.
    assert_eq!(office.ceiling, [Some(Rate::from_mbps(5)), None]);
    assert_eq!((office.weight, voice.weight, voice.priority), (3, 1, 7));
    assert_eq!(voice.queue.name(), "drop-tail");
    assert_eq!(voice.terms(Direction::Up).burst.0, 2 * 1_538);
    assert_eq!(config.policies[0].class.as_deref(), Some("voice"));
    assert_eq!(config.policy_set().unwrap().classes(), &config.classes);
}

messages! {
    promises_beyond_the_parent_and_the_link_name_both_lines: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "10 Mbit/s", down = "50 Mbit/s" }
[[class]]
name = "office"
guarantee = "8 Mbit/s"
[[class]]
name = "web"
parent = "office"
guarantee = { up = "9 Mbit/s" }
[[class]]
name = "guests"
guarantee = { up = "3 Mbit/s" }
"# => r#"
error[TG0032]: class `web`: with this class, the sum of guarantees up is 9 Mbit/s, more than 8 Mbit/s
  --> office.toml:11:13
   |
 7 | guarantee = "8 Mbit/s"
   |             ---------- the guarantee of its parent
...
11 | guarantee = { up = "9 Mbit/s" }
   |             ^^^^^^^^^^^^^^^^^^^
   |
   = help: lower one of the guarantees, or raise that of the parent or the rate of the link

error[TG0032]: class `guests`: with this class, the sum of guarantees up is 11 Mbit/s, more than 10 Mbit/s
  --> office.toml:14:13
   |
 4 | rate = { up = "10 Mbit/s", down = "50 Mbit/s" }
   |        ---------------------------------------- the rate of the link
...
14 | guarantee = { up = "3 Mbit/s" }
   |             ^^^^^^^^^^^^^^^^^^^
   |
   = help: lower one of the guarantees, or raise that of the parent or the rate of the link"#;
    guarantees_that_leave_control_traffic_no_room_cause_a_warning: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "10 Mbit/s", down = "50 Mbit/s" }
[[class]]
name = "office"
[[class]]
name = "web"
parent = "office"
guarantee = "5 Mbit/s"
[[class]]
name = "guests"
guarantee = "5 Mbit/s"
"# => r#"
warning[TG0032]: guarantees up come to 10 Mbit/s; control traffic leaves 9800 kbit/s of the 10 Mbit/s of the link
 --> office.toml:4:8
  |
4 | rate = { up = "10 Mbit/s", down = "50 Mbit/s" }
  |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  |
  = help: lower the guarantees by 200 kbit/s, which control traffic may use"#;
    a_ceiling_below_the_guarantee_names_both: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "10 Mbit/s" }
[[class]]
name = "office"
guarantee = "8 Mbit/s"
ceiling = { up = "7 Mbit/s" }
"# => r#"
error[TG0033]: class `office`: its ceiling up is below its guarantee
 --> office.toml:8:11
  |
7 | guarantee = "8 Mbit/s"
  |             ---------- the guarantee
8 | ceiling = { up = "7 Mbit/s" }
  |           ^^^^^^^^^^^^^^^^^^^
  |
  = help: raise the ceiling, or lower the guarantee"#;
    classes_that_form_no_tree_are_refused: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "10 Mbit/s" }
[[class]]
name = "a"
parent = "b"
[[class]]
name = "b"
parent = "a"
[[class]]
name = "c"
parent = "d"
"# => r#"
error[TG0031]: class `a`: it is its own ancestor
 --> office.toml:7:10
  |
7 | parent = "b"
  |          ^^^
8 | [[class]]
9 | name = "b"
  |        --- its parent
  |
  = help: give each class a `parent` that is not one of its own parts, or no parent

error[TG0031]: class `c`: its parent does not exist
  --> office.toml:13:10
   |
13 | parent = "d"
   |          ^^^
   |
   = help: give each class a `parent` that is not one of its own parts, or no parent"#;
    a_policy_needs_an_existing_leaf_class: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "10 Mbit/s" }
[[class]]
name = "office"
[[class]]
name = "web"
parent = "office"
[[policy]]
name = "one"
action = "pass"
class = "office"
[[policy]]
name = "two"
match = { protocol = "tcp" }
action = "pass"
class = "wep"
"# => r#"
error[TG0034]: class `office` has parts: no packets wait there
  --> office.toml:13:9
   |
 9 | parent = "office"
   |          -------- one of its parts
...
13 | class = "office"
   |         ^^^^^^^^
   |
   = help: name one of its parts, where packets wait; if no part fits, add one for the remaining packets

error[TG0008]: there is no class `wep`
  --> office.toml:18:9
   |
18 | class = "wep"
   |         ^^^^^
   |
   = help: did you mean `web`? there are: default, office, web"#;
    a_delay_bound_is_for_a_class_where_packets_wait: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "1 Mbit/s" }
[[class]]
name = "office"
guarantee = "300 kbit/s"
delay_bound = "1 s"
[[class]]
name = "web"
parent = "office"
guarantee = "300 kbit/s"
"# => r#"
error[TG0038]: class `office`: it has a delay bound and parts, but no packets wait at a class with parts
  --> office.toml:8:15
   |
 8 | delay_bound = "1 s"
   |               ^^^^^
...
11 | parent = "office"
   |          -------- one of its parts
   |
   = help: raise the bound, or change the marked line. Smaller bursts, higher ceilings and faster links shorten the delay; so does `queue = "drop-tail"`, in which no packet overtakes another"#;
    the_cause_of_an_impossible_delay_bound_is_named: r#"[gateway]
lan = "eth1"
wan = "eth0"
rate = { up = "1 Mbit/s", down = "20 Mbit/s" }
queue = "drop-tail"
[[class]]
name = "voice"
guarantee = "100 kbit/s"
burst = "400 B"
delay_bound = { up = "14 ms" }
[[class]]
name = "video"
guarantee = "400 kbit/s"
burst = "20 kB"
delay_bound = { up = "150 ms", down = "20 ms" }
[[class]]
name = "bulk"
burst = "90 kB"
delay_bound = { down = "1 s" }
[[class]]
name = "office"
guarantee = "300 kbit/s"
ceiling = { up = "400 kbit/s" }
burst = "60 kB"
[[class]]
name = "web"
parent = "office"
guarantee = "300 kbit/s"
burst = "1 kB"
delay_bound = { up = "500 ms" }
"# => r#"
error[TG0038]: class `voice`: its delay bound up cannot be met: a packet may wait 31 ms, most of it for control traffic
  --> office.toml:10:15
   |
 4 | rate = { up = "1 Mbit/s", down = "20 Mbit/s" }
   |        --------------------------------------- the link
...
10 | delay_bound = { up = "14 ms" }
   |               ^^^^^^^^^^^^^^^^
   |
   = help: raise the bound, or change the marked line. Smaller bursts, higher ceilings and faster links shorten the delay; so does `queue = "drop-tail"`, in which no packet overtakes another

error[TG0038]: class `video`: its delay bound up cannot be met: a packet may wait 240 ms, most of it for a burst
  --> office.toml:15:15
   |
14 | burst = "20 kB"
   |         ------- the burst of this class
15 | delay_bound = { up = "150 ms", down = "20 ms" }
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   |
   = help: raise the bound, or change the marked line. Smaller bursts, higher ceilings and faster links shorten the delay; so does `queue = "drop-tail"`, in which no packet overtakes another

error[TG0038]: class `bulk`: its delay bound down cannot be met: it has no guarantee
  --> office.toml:19:15
   |
17 | name = "bulk"
   |        ------ this class has no `guarantee`
18 | burst = "90 kB"
19 | delay_bound = { down = "1 s" }
   |               ^^^^^^^^^^^^^^^^
   |
   = help: raise the bound, or change the marked line. Smaller bursts, higher ceilings and faster links shorten the delay; so does `queue = "drop-tail"`, in which no packet overtakes another

error[TG0038]: class `web`: its delay bound up cannot be met: a packet may wait 679 ms, most of it for a burst
  --> office.toml:30:15
   |
14 | burst = "20 kB"
   |         ------- the burst of this class
...
30 | delay_bound = { up = "500 ms" }
   |               ^^^^^^^^^^^^^^^^^
   |
   = help: raise the bound, or change the marked line. Smaller bursts, higher ceilings and faster links shorten the delay; so does `queue = "drop-tail"`, in which no packet overtakes another"#;
    classes_need_a_rate_to_share: r#"[gateway]
lan = "eth1"
wan = "eth0"
[[class]]
name = "office"
"# => r#"
error[TG0035]: classes share a rate, and the link has none
 --> office.toml:4:1
  |
4 | [[class]]
  | ^^^^^^^^^
  |
  = help: give the link its rate: rate = { up = "38 Mbit/s", down = "475 Mbit/s" } in [gateway]"#;
}
