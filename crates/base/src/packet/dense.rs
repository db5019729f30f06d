//! Lists with indices from zero, which grow to contain the largest index in use.

/// Grows `list` until it contains the index `at`. New entries are copies of `empty`.
///
/// The capacity grows by a sixteenth, not by a factor of two. A list of a million flows then has
/// little unused capacity, and each entry is still moved only about sixteen times.
#[inline]
pub fn make_room<T: Clone>(list: &mut Vec<T>, at: usize, empty: T) {
    if at >= list.len() {
        grow(list, at, empty);
    }
}

#[cold]
#[inline]
fn grow<T: Clone>(list: &mut Vec<T>, at: usize, empty: T) {
    if at >= list.capacity() {
        list.reserve_exact(at + 1 + at / 16 - list.len());
    }
    list.resize(at + 1, empty);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_grows_entry_by_entry_is_moved_seldom_and_has_little_unused_capacity() {
        let (mut list, mut moves) = (Vec::new(), 0);
        for at in 0..100_000 {
            let before = list.capacity();
            make_room(&mut list, at, 0u8);
            moves += u32::from(list.capacity() != before);
            assert!(list.capacity() <= at + 1 + at / 16, "{} for {at}", list.capacity());
        }
        assert!(moves < 200, "{moves} moves");
    }
}
