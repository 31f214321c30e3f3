//! The number of requests that one worker handles.
//!
//! Workers boot together and share the load evenly, so with the same limit they would end together as well, and all
//! requests would wait for the boot. Each worker draws its own limit.

use std::ops::RangeInclusive;

/// Returns after how many requests a worker ends, between 0.75 and 1.25 times `max` and at least 1, or `None` if `max`
/// is 0. `draw` is a random number.
pub fn lifetime(max: u64, draw: u64) -> Option<u64> {
    let range = lifetimes(max)?;
    Some(range.start() + draw % (range.end() - range.start() + 1))
}

fn lifetimes(max: u64) -> Option<RangeInclusive<u64>> {
    let quarter = max / 4;
    (max > 0).then(|| max - quarter..=max.saturating_add(quarter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_limit() {
        assert_eq!(lifetime(0, 7), None);
    }

    #[test]
    fn lifetimes_fill_the_range() {
        for (max, least, most) in [(1, 1, 1), (3, 3, 3), (4, 3, 5), (10, 8, 12), (500, 375, 625)] {
            let drawn: Vec<u64> = (0..1000).filter_map(|draw| lifetime(max, draw)).collect();
            assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&least), Some(&most)), "{max}");
        }
    }

    #[test]
    fn the_largest_limit_does_not_overflow() {
        assert!(lifetime(u64::MAX, u64::MAX).is_some());
    }
}
