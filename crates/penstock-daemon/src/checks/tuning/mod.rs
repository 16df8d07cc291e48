//! How a host is tuned, beside what <https://fasterdata.es.net> advises for hosts that move data,
//! and what Penstock would gain by it.
//!
//! Facts in, findings out: nothing here asks the host. A check names the page that its advice is
//! from. Where this program needs an advised setting no more, or a figure of docs/performance.md
//! shows no gain, the finding is `ok` and says so. Where nobody has measured a gain, it
//! says that. Nothing here is worse than a note, but for buffers that are too small for what was
//! measured, and a daemon that is bound away from its card.
//!
//! | module | what it judges |
//! |---|---|
//! | `host` | the host that is judged |
//! | `processors` | governor, hyper-threading, NUMA nodes, interrupts |
//! | `cards` | receive rings, queues, MTU |
//! | `tcp` | buffers, congestion control, metrics, backlog |
//! | `sysctl_file` | the file of settings for sysctl(8), and whose it is |

mod cards;
mod host;
mod processors;
mod sysctl_file;
mod tcp;

pub(super) use host::Host;
pub use sysctl_file::SysctlFile;

use penstock_api::operate::Finding;

/// Returns what is to be said of how a host is tuned.
pub(super) fn judge(host: &Host<'_>) -> Vec<Finding> {
    let mut findings = tcp::judge(host);
    findings.extend(processors::judge(host));
    findings.extend(cards::judge(host));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::operate::Level;
    use penstock_sys::HostTuning;

    /// Promise: of a host of which nothing is known nothing is said that is not known: no finding
    /// asks for a change.
    #[test]
    fn an_unknown_host_is_left_in_peace() {
        let tuning = HostTuning::default();
        let host = Host { tuning: &tuning, devices: &[], cpus: &[], measured: &[] };
        let findings = judge(&host);
        assert!(findings.iter().all(|found| found.level == Level::Ok), "{findings:?}");
    }
}
