//! Tests of quantities and their notation.

use super::*;

#[test]
fn quantities_are_read_as_they_are_shown() {
    for text in ["0 bit/s", "800 kbit/s", "20 Mbit/s", "1500 kbit/s", "10 Gbit/s", "2 Tbit/s"] {
        assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
    }
    for text in ["1514 B", "10 kB", "64 KiB", "3 MiB", "2 GB", "1 GiB"] {
        assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
    }
    assert_eq!("1.5 Mbit/s".parse(), Ok(Rate::from_kbps(1_500)));
    assert_eq!("0.000001 %".parse(), Ok(Chance::from_ppb(10)));
    assert_eq!(duration::parse("1.5ms"), Ok(Duration::from_micros(1_500)));
}

#[test]
fn a_bare_number_is_refused_with_an_example() {
    let error = "100".parse::<Rate>().unwrap_err().to_string();
    assert_eq!(error, "`100` has no unit; write for example \"20 Mbit/s\"");
}

#[test]
fn factors_are_plain_numbers_read_exactly() {
    #[derive(Debug, Deserialize)]
    struct Table {
        factor: Factor,
    }
    let read = |text: &str| toml::from_str::<Table>(&format!("factor = {text}"));
    for (text, millionths) in
        [("0.7", 700_000), ("2", 2_000_000), ("0.000001", 1), ("1.5", 1_500_000)]
    {
        let factor = read(text).unwrap().factor;
        assert_eq!((factor.millionths(), factor.to_string().as_str()), (millionths, text));
    }
    for text in ["-0.5", "-1", "0.0000001", "nan", "inf", "1e300", "\"0.5\""] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains("a number from 0"), "{text}: {error}");
    }
    assert_eq!(Factor::from_millionths(700_000).of(1_001), 700);
    assert_eq!(Factor::whole(3).of(7), 21);
}

#[test]
fn ambiguous_units_are_refused_with_the_reason() {
    let error = "100 kbps".parse::<Rate>().unwrap_err().to_string();
    assert!(error.contains("bits or bytes"), "{error}");
    let error = "10 KB".parse::<Bytes>().unwrap_err().to_string();
    assert!(error.contains("KiB is 1,024"), "{error}");
}

#[test]
fn a_text_that_is_no_quantity_is_refused() {
    for text in ["", "-1 B", ".5 kB", "1. kB", "0.3 B", "99999999999999999999 B", "1e3 B"] {
        assert!(text.parse::<Bytes>().is_err(), "{text}");
    }
    assert!("101 %".parse::<Chance>().is_err());
}

#[test]
fn serialization_time_is_rounded_up() {
    assert_eq!(Rate::from_mbps(1).time_for(Bytes(1_500)), Duration::from_millis(12));
    assert_eq!(Rate::from_bps(3).time_for(Bytes(1)).as_nanos(), 2_666_666_667);
}

/// A division uses 64-bit integers if the product fits, and 128-bit integers otherwise.
///
/// Catches: a product that overflows; a 64-bit division that rounds differently from the 128-bit
/// division.
#[test]
fn divisions_with_64_and_with_128_bits_give_equal_results() {
    let edges = [1, 7, 1_514, 2_305_843_009, 2_305_843_010, u64::MAX / 3, u64::MAX];
    for (rate, amount) in edges.into_iter().flat_map(|it| edges.map(|other| (it, other))) {
        let (wide, byte) = (u128::from(rate), u128::from(NANOBITS_PER_BYTE));
        let least = |exact: u128| u64::try_from(exact).unwrap_or(u64::MAX);
        let nanos = least((u128::from(amount) * byte).div_ceil(wide));
        let bytes = least(wide * u128::from(amount) / byte);
        let rate = Rate::from_bps(rate);
        assert_eq!(rate.time_for(Bytes(amount)), Duration::from_nanos(nanos));
        assert_eq!(rate.bytes_in(Duration::from_nanos(amount)), Bytes(bytes));
    }
    assert_eq!(Rate::from_bps(0).time_for(Bytes(1)), Duration::from_nanos(u64::MAX));
}
