//! How a link is shared between classes, beside HTB.

use std::time::Duration;

use tidegate_e2e::Testbed;

use crate::live::{Forwarder, ourselves, ready};
use crate::load::PORT;
use crate::number::{median, real};
use crate::report::{Line, Report};

/// What each of three classes is promised of a link of [`LINK`], in Mbit/s, and its weight.
const CLASSES: [(u32, u32); 3] = [(8, 1), (4, 2), (2, 3)];
const LINK: u32 = 20;

/// Measurements of each, taken in turns.
const ROUNDS: usize = 3;

/// How long arrivals are counted, once all send.
const COUNTED: &str = "4000";
const SENT: &str = "6500";

/// Adds how far from its part each class is, in parts of it, to `report`; only told.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    report.section("A link of 20 Mbit/s shared by classes: the furthest of a class from its part");
    let mut ours: [Vec<f64>; 3] = Default::default();
    let mut theirs: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        let Some(bed) = Testbed::new() else {
            report.skip("sharing; there are no network namespaces here: run it as root");
            return Ok(());
        };
        keep(&mut ours, shares(&bed, &gateway(&bed))?);
        drop(bed);
        let Some(bed) = Testbed::new() else { continue };
        bed.bridge();
        if let Err(reason) = add_htb(&bed) {
            report.skip(&format!("sharing; there is no HTB here: {reason}"));
            return Ok(());
        }
        keep(&mut theirs, shares(&bed, &Forwarder::Kernel)?);
    }
    for (name, all) in [("classes of ours", &ours), ("classes of HTB", &theirs)] {
        let got = all.each_ref().map(|each| median(each.clone()));
        let off = got.iter().zip(parts()).map(|(got, part)| (got / part - 1.0).abs());
        let all = got.map(|got| format!("{got:.3}")).join(", ");
        let parts = parts().map(|part| format!("{part:.3}")).join(", ");
        report.add(Line {
            what: name.to_owned(),
            value: off.fold(0.0, f64::max) * 100.0,
            unit: "%",
            most: None,
            beside: format!("{all} Mbit/s for {parts}"),
        });
    }
    Ok(())
}

/// What each class is to have, in Mbit/s: what it is promised, and its part of the rest by weight.
fn parts() -> [f64; 3] {
    let promised: u32 = CLASSES.iter().map(|(promised, _)| promised).sum();
    let weights: u32 = CLASSES.iter().map(|(_, weight)| weight).sum();
    CLASSES.map(|(promised_each, weight)| {
        f64::from(promised_each) + f64::from((LINK - promised) * weight) / f64::from(weights)
    })
}

fn keep(all: &mut [Vec<f64>; 3], shares: [f64; 3]) {
    all.iter_mut().zip(shares).for_each(|(all, share)| all.push(share));
}

fn gateway(bed: &Testbed) -> Forwarder<'_> {
    let mut text = format!("rate = {{ up = \"{LINK} Mbit/s\" }}\n");
    for (number, (promised, weight)) in CLASSES.iter().enumerate() {
        text += &format!(
            "[[class]]\nname = \"c{number}\"\nguarantee = \"{promised} Mbit/s\"\nweight = {weight}\n\
             queue = {{ kind = \"drop-tail\", limit = \"150 kB\" }}\n"
        );
    }
    for (number, port) in (0..CLASSES.len()).zip(PORT..) {
        text += &format!(
            "[[policy]]\nname = \"p{number}\"\naction = \"pass\"\nclass = \"c{number}\"\n\
             match = {{ protocol = \"udp\", dst_port = {port}, direction = \"up\" }}\n"
        );
    }
    Forwarder::Gateway(bed.gateway("auto", &text))
}

fn add_htb(bed: &Testbed) -> Result<(), String> {
    let mut lines = vec![
        "qdisc add dev wan root handle 1: htb default 99".to_owned(),
        format!("class add dev wan parent 1: classid 1:1 htb rate {LINK}mbit"),
    ];
    for (number, (promised, weight)) in CLASSES.iter().enumerate() {
        let (id, quantum, port) = (10 + number, 1_514 * weight, usize::from(PORT) + number);
        lines.push(format!(
            "class add dev wan parent 1:1 classid 1:{id} htb rate {promised}mbit ceil {LINK}mbit quantum {quantum}"
        ));
        lines.push(format!("qdisc add dev wan parent 1:{id} bfifo limit 150000"));
        lines.push(format!(
            "filter add dev wan parent 1: protocol ip u32 match ip dport {port} 0xffff flowid 1:{id}"
        ));
    }
    for words in lines {
        let output = bed.middle.command("tc").args(words.split_whitespace()).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{words}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    Ok(())
}

/// Mbit/s of each class while each is sent more than the link carries.
fn shares(bed: &Testbed, _forwarder: &Forwarder<'_>) -> anyhow::Result<[f64; 3]> {
    let receiver = ready(&bed.wan, &["received", COUNTED])?;
    let per_second = (LINK * 1_200_000 / 8 / 1_514).to_string();
    let mut senders = Vec::new();
    for port in (PORT..).take(CLASSES.len()) {
        let to = format!("{}:{port}", bed.wan.v4);
        let words = ["send", to.as_str(), &per_second, "4", SENT, "1"];
        senders.push(tidegate_e2e::Process::start(&mut ourselves(&bed.lan, &words)?));
    }
    let finished = receiver.finish(Duration::from_secs(20));
    let counts: Vec<u32> = finished.output.lines().filter_map(|it| it.parse().ok()).collect();
    let seconds = real(COUNTED.parse()?) / 1_000.0;
    let rate = |count: u32| f64::from(count) * 1_514.0 * 8.0 / 1e6 / seconds;
    let [a, b, c] = counts[..] else { anyhow::bail!("{counts:?}: {}", finished.output) };
    Ok([a, b, c].map(rate))
}
