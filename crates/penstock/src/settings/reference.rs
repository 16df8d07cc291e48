//! The reference of settings and of knobs of the data path, as Markdown.

use penstock_api::transfer::LANES_MAX;
use penstock_daemon::settings::SETTINGS;
use penstock_proto::slicing::{EXTENT_BYTES_CEILING, EXTENT_BYTES_FLOOR, Slicing};

/// A knob that movers of bulk data are known for.
struct Knob {
    /// The knob, in the words of other systems.
    name: &'static str,
    /// The place where it is set here.
    here: &'static str,
    /// The choice that is made unless it is set.
    automatic: String,
}

/// Returns the knobs of published systems: what sets each here, and what is chosen without.
fn knobs() -> Vec<Knob> {
    let knob = |name, here, automatic: &str| Knob { name, here, automatic: automatic.to_owned() };
    let Slicing { stride_bytes, extent_bytes, pack_bytes, pack_files, .. } = Slicing::default();
    let mib = |bytes: u64| bytes >> 20;
    let pieces = format!(
        "extents of {} MiB, doubled while a file has more than 4,096; small files are packed up to \
         {} MiB or {pack_files} files. {} MiB to {} MiB can be set",
        mib(extent_bytes),
        mib(pack_bytes),
        mib(EXTENT_BYTES_FLOOR),
        mib(EXTENT_BYTES_CEILING)
    );
    let chunk = format!(
        "a stride of {} KiB, which fits in the L2 cache of a core, is read, hashed, sent, checked \
         and written at a time",
        stride_bytes >> 10
    );
    let streams = format!(
        "as many lanes as the path needs, at most {LANES_MAX}: one for each CPU up to 16 at first, \
         more over distance; at least 4 where files pass the page cache by"
    );
    vec![
        knob(
            "network threads, parallel streams",
            "`--lanes`, `--max-lanes` of a transfer",
            &streams,
        ),
        knob(
            "storage threads",
            "none: each lane has one thread, which does the input and output of its store too",
            "as many as lanes; a scan and the publication of names have threads of their own",
        ),
        knob(
            "CPUs",
            "`cpus`, `--cpus`",
            "all that the cgroup (`cpu.max`) and the affinity mask allow",
        ),
        knob("piece size", "`--piece-size` of a transfer", &pieces),
        knob("chunk size, block size", "none", &chunk),
        knob(
            "pieces in flight, pipelining",
            "none",
            "over distance, half above the product of bandwidth and round-trip time that is \
             measured; within a site as much as lanes take. At most 64 requests a lane",
        ),
        knob(
            "direct I/O",
            "`io` of a store",
            "files of 1 MiB or more are written past the page cache on ext4, and read past it on \
             ext4 and XFS unless it has them, but for arrays with parity and disks that rotate; \
             all else goes through it",
        ),
        knob(
            "asynchronous I/O",
            "none",
            "blocking calls, one lane a thread: io_uring gained what two more lanes gain \
             ([0016](design/0016-direct-writes.md))",
        ),
        knob(
            "progress time-out",
            "none",
            "a lane that delivers nothing for 20 s is replaced; a task without a lane for 90 s, or \
             without any progress for 300 s, ends, and its transfer tries again later",
        ),
        knob("concurrent transfers", "`running_max`", "4 at a time, and one more if it is short"),
        knob("rate limit", "`--bwlimit` of a transfer", "none"),
        knob("metadata rate", "`--max-metadata-ops` of a transfer", "none"),
        knob("ciphers", "`cipher_suites`, `--encryption`", "the fastest of TLS 1.3 on this CPU"),
    ]
}

/// Returns the tables of settings and of knobs.
pub(crate) fn markdown() -> String {
    let mut text = String::from(
        "\n## Settings\n\n\
         The keys of `penstock.toml`, its drop-ins and the environment; `penstock config show` \
         prints the values in force. A change counts after a reload (SIGHUP, `penstock config \
         reload`) or a restart. [The guide](guide.md#configuration) explains the layers.\n\n\
         | setting | default | a change counts after a | variable | meaning |\n\
         |---|---|---|---|---|\n",
    );
    for setting in SETTINGS {
        let variable = setting.variable().map(|name| format!("`{name}`")).unwrap_or_default();
        let (key, default, taken_by) = (setting.key, setting.default, setting.taken_by.as_str());
        text += &format!("| `{key}` | {default} | {taken_by} | {variable} | {} |\n", setting.what);
    }
    text += "\n## Knobs\n\n\
             What other movers have to be told, and what is chosen here without a word. A knob \
             without a place is not there: nothing that is measured would gain by it.\n\n\
             | knob | set by | automatic |\n|---|---|---|\n";
    for Knob { name, here, automatic } in knobs() {
        text += &format!("| {name} | {here} | {automatic} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: each setting and each knob has its row.
    #[test]
    fn every_setting_and_knob_has_a_row() {
        let text = markdown();
        for setting in SETTINGS {
            assert!(text.contains(&format!("| `{}` |", setting.key)), "{}", setting.key);
        }
        for knob in ["direct I/O", "asynchronous I/O", "piece size", "progress time-out"] {
            assert!(text.contains(&format!("| {knob} |")), "{knob}");
        }
    }
}
