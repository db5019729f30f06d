//! What becomes of policy files, good and bad.

use super::*;

#[test]
fn show() {
    for text in [
        "[gateway]\nlan = \"eth1\"\nwan = \"eth1\"\nrate = { up = 100, down = \"5 kbps\" }\n[[policy]]\nname=\"web\"\naction = \"shap\"\nmatch = { srcc = 1, src_port = [], vlan = 5000, dst = \"10.0.0.1/8\", protocol = [\"tcp\", \"esp\"], dst_port = 80 }\nprofile = { mean = \"5 Mbit/s\", peak = \"1 Mbit/s\", burst = \"100 B\"}",
        "[gateway]\nlan = \"eth1\"\nwan = \"eth0\"\n\n[[policy]]\nname = \"web\"\naction = \"shape\"\n\n[[policy]]\nname = \"web\"\naction = \"police-mark\"\nqueue = \"per-flo\"\nallocation = { kind = \"drr\", a = 3 }\nprofile = { mean = \"5 Mbit/s\", peak = \"1 Mbit/s\" }\nweights = [{match={direction=\"upp\"}, weight=0}]\n",
        "[gateway\nlan = 5 5\nlan = 3",
        "",
    ] {
        let (config, found) = parse("office.toml", text, None);
        println!(
            "{}\n{}\n----",
            found.render(false),
            serde_json::to_string(&found.data()).unwrap()
        );
        assert!(config.is_none());
    }
}
