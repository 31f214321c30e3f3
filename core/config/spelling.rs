//! Suggestions for misspelt words.
//!
//! Finds the nearest of the known words, by the number of letters to add, remove, change or swap. The caller supplies
//! the words and the maximum distance.

/// Returns the candidate nearest to `word`, if its distance is within `distance_max` of it; the first of several.
/// `word` must not be a candidate.
///
/// # Examples
///
/// ```
/// use svc_core::config::spelling::nearest;
///
/// assert_eq!(nearest("chekc", ["check", "serve"], |_| 2), Some("check"));
/// assert_eq!(nearest("poem", ["check", "serve"], |_| 2), None);
/// ```
pub fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    distance_max: impl Fn(&str) -> usize,
) -> Option<&'a str> {
    let near = candidates.into_iter().filter_map(|candidate| {
        let max = distance_max(candidate);
        // No more letters can match than the shorter word has; this also bounds the work for a long word.
        let is_long = word.len().abs_diff(candidate.len()) > max;
        let distance = (!is_long).then(|| distance(word.as_bytes(), candidate.as_bytes()))?;
        (distance <= max).then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Returns the maximum distance of a misspelt word on the command line: a third of the candidate's letters.
pub fn tolerance(candidate: &str) -> usize {
    candidate.trim_start_matches('-').len().div_ceil(3).min(3)
}

/// Computes the optimal string alignment distance.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, counterpart) in other.iter().enumerate() {
            let change = last[j] + usize::from(letter != counterpart);
            let mut least = change.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == other[j - 1] && one[i - 1] == *counterpart {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_added_removed_changed_and_swapped() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("abcd", "acbd", 1),
            ("conection", "connection", 1),
            ("same", "same", 0),
        ] {
            assert_eq!(distance(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
            assert_eq!(distance(other.as_bytes(), one.as_bytes()), expected, "{other} {one}");
        }
    }

    #[test]
    fn near_names_are_found_and_distant_ones_are_not() {
        let words = ["check", "completions", "help"];
        assert_eq!(nearest("hepl", words, tolerance), Some("help"));
        assert_eq!(nearest("completion", words, tolerance), Some("completions"));
        assert_eq!(nearest("x", words, tolerance), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), words, tolerance), None);
    }
}
