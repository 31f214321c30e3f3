//! Lines of a source file around one of them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Lines around a line of interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The number of the first line.
    pub(super) first: u32,
    /// The lines, without their ends.
    pub(super) lines: Vec<String>,
}

/// The number of lines before and after the line of interest.
const AROUND: u32 = 6;

/// Longer files are generated, and are not read.
const SOURCE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Longer lines are cut.
const LINE_CHARACTERS_MAX: usize = 400;

/// Reads the lines around `line`; `None` if the file cannot be read or has no such line.
pub(super) fn read(path: &Path, line: u32) -> Option<Excerpt> {
    let file = File::open(path).ok()?;
    let facts = file.metadata().ok()?;
    // The path of a failure may be that of a device or a pipe that a script has included.
    if !facts.is_file() || facts.len() > SOURCE_BYTES_MAX {
        return None;
    }
    let mut source = Vec::new();
    file.take(SOURCE_BYTES_MAX).read_to_end(&mut source).ok()?;
    around(&String::from_utf8_lossy(&source), line)
}

fn around(source: &str, line: u32) -> Option<Excerpt> {
    let first = line.checked_sub(1)?.saturating_sub(AROUND) + 1;
    let count = (line - first + AROUND + 1) as usize;
    let lines: Vec<String> = source.lines().skip(first as usize - 1).take(count).map(shortened).collect();
    ((line - first) < u32::try_from(lines.len()).ok()?).then_some(Excerpt { first, lines })
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARACTERS_MAX) {
        Some((end, _)) => line[..end].to_owned() + "…",
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(line: u32) -> Option<(u32, usize)> {
        let source = (1..=20).map(|number| format!("{number}\n")).collect::<String>();
        let excerpt = around(&source, line)?;
        assert_eq!(excerpt.lines[(line - excerpt.first) as usize], line.to_string());
        Some((excerpt.first, excerpt.lines.len()))
    }

    #[test]
    fn the_line_is_in_the_middle_if_there_is_room() {
        assert_eq!(numbers(10), Some((4, 13)));
        assert_eq!(numbers(1), Some((1, 7)));
        assert_eq!(numbers(20), Some((14, 7)));
        assert_eq!(numbers(21), None);
        assert_eq!(numbers(0), None);
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let excerpt = around(&"é".repeat(1000), 1).unwrap();
        assert_eq!(excerpt.lines[0].chars().count(), LINE_CHARACTERS_MAX + 1);
    }

    #[test]
    fn only_regular_files_are_read() {
        assert_eq!(read(Path::new("/dev/zero"), 1), None);
        assert_eq!(read(Path::new("/"), 1), None);
        assert_eq!(read(Path::new("/a/b.php(3) : eval()'d code"), 1), None);
    }
}
