//! Word lists in data files: one entry a line; `#` begins a comment line, and `[name]` begins a section.

use std::collections::HashSet;

/// The entries of a list, in any of its sections.
pub(crate) fn entries(list: &'static str) -> HashSet<&'static str> {
    lines(list).filter(|line| section_name(line).is_none()).collect()
}

/// The entries of one section of a list; empty if there is no such section.
pub(crate) fn section(list: &'static str, name: &str) -> HashSet<&'static str> {
    let behind = lines(list).skip_while(|line| section_name(line) != Some(name)).skip(1);
    behind.take_while(|line| section_name(line).is_none()).collect()
}

fn lines(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn section_name(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let list = "# why\n\n[one]\na\nb c\n# why\n[two]\nd\n";
        assert_eq!(section(list, "one"), HashSet::from(["a", "b c"]));
        assert_eq!(section(list, "two"), HashSet::from(["d"]));
        assert_eq!(section(list, "three"), HashSet::new());
        assert_eq!(entries(list), HashSet::from(["a", "b c", "d"]));
    }
}
