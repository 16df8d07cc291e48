//! Memory of the host and of this process.

use std::fs;
use std::io;

/// Memory of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// All of it, in bytes.
    pub total_bytes: u64,
    /// Bytes that programs could still get, with caches dropped.
    pub available_bytes: u64,
}

impl HostMemory {
    /// Returns the bytes that are in use and that no cache could free.
    pub fn used_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.available_bytes)
    }
}

/// Returns the memory of the host.
///
/// # Errors
/// `/proc` is not mounted, or shows no memory.
pub fn host_memory() -> io::Result<HostMemory> {
    let text = fs::read_to_string("/proc/meminfo")?;
    parse_host_memory(&text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no total"))
}

/// Reads a text of `/proc/meminfo` (proc_meminfo(5)).
fn parse_host_memory(text: &str) -> Option<HostMemory> {
    let bytes = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
    };
    Some(HostMemory { total_bytes: bytes("MemTotal")?, available_bytes: bytes("MemAvailable")? })
}

/// Returns the resident memory of this process, in bytes; `None` if unknown. From the second field
/// of `/proc/self/statm` (proc_pid_statm(5)), which the kernel keeps to within some pages per
/// thread.
pub fn process_memory_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: used memory is the part that caches cannot free; a text without the figure is not
    /// accepted.
    #[test]
    fn memory_is_read() {
        let text = "MemTotal:       16000 kB\nMemFree:         100 kB\nMemAvailable:   6000 kB\n";
        let memory = parse_host_memory(text).unwrap();
        assert_eq!(memory.used_bytes(), 10_000 * 1024);
        assert_eq!(parse_host_memory("MemTotal: 5 kB\n"), None);
        assert_eq!(parse_host_memory("MemTotal: x kB\nMemAvailable: 1 kB\n"), None);
    }

    /// Promise (kernel cross-check): memory that this process has written to is resident.
    #[test]
    fn written_memory_is_resident() {
        const BYTES: usize = 64 << 20;
        let before = process_memory_bytes().unwrap();
        let block = std::hint::black_box(vec![7_u8; BYTES]);
        let grown = process_memory_bytes().unwrap().saturating_sub(before);
        assert!(grown as f64 >= 0.9 * BYTES as f64, "{grown} bytes");
        assert!(host_memory().unwrap().used_bytes() as usize >= block.len());
    }
}
