//! Lists of processors as the kernel writes them: `0-15,32-47`.

/// Processors that a list may name at most: more than any kernel is built for.
const CPUS_MAX: usize = 1 << 16;

/// Reads a list of processors (cpuset(7), "List format"). Invalid parts are left out.
#[must_use]
pub fn parse_cpu_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
            continue;
        };
        if first <= last && last < CPUS_MAX {
            cpus.extend(first..=last);
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Writes processors, in ascending order, as a list that [`parse_cpu_list`] reads.
#[must_use]
pub fn cpu_list(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let words = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: lists of the kernel are read and written alike, and a damaged one takes no memory.
    #[test]
    fn lists_are_read_and_written() {
        for text in ["", "0", "0-3", "0-15,32-47", "1,3,5-6"] {
            assert_eq!(cpu_list(&parse_cpu_list(&format!("{text}\n"))), text);
        }
        assert_eq!(parse_cpu_list("3,x,1-2,5-4,0-99999999999,7-"), [1, 2, 3]);
    }
}
