//! The memory that an allocation takes.
//!
//! A cache that bounds its memory counts what libc takes for its objects, which for small objects is much more than their
//! lengths.

/// Returns the memory that libc takes for an allocation of this many bytes: a word in front of it, in multiples of 16
/// bytes, at least 32.
pub const fn allocated(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    let with_word = bytes.saturating_add(size_of::<usize>());
    let rounded = with_word.saturating_add(15) & !15;
    if rounded < 32 { 32 } else { rounded }
}

/// Returns the memory of a value of this many bytes that is shared by counted references.
pub const fn allocated_shared(bytes: usize) -> usize {
    allocated(bytes.saturating_add(2 * size_of::<usize>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_rounded_up() {
        for (bytes, expected) in [(0, 0), (1, 32), (24, 32), (25, 48), (40, 48), (1000, 1008), (1001, 1024)] {
            assert_eq!(allocated(bytes), expected, "{bytes}");
        }
        assert_eq!(allocated_shared(0), 32);
    }
}
