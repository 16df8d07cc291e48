//! The tuning of a host, compared with the advice of <https://fasterdata.es.net> for hosts that
//! move data, and the gain that Penstock would have.
//!
//! Facts in, findings out: no function here asks the host. A check names the page of its advice. If
//! this program does not need an advised setting, or a figure of docs/performance.md shows no gain,
//! the finding is `ok` and says so. A finding also says if no gain was measured. Two findings are
//! worse than a note: buffers that are too small for the measured paths, and a daemon that is bound
//! away from its card.
//!
//! | module | subject |
//! |---|---|
//! | `host` | the host that is judged |
//! | `processors` | governor, hyper-threading, NUMA nodes, interrupts |
//! | `cards` | receive rings, queues, MTU |
//! | `tcp` | buffers, congestion control, metrics, backlog |
//! | `sysctl_file` | the file of settings for sysctl(8), and its owner |

mod cards;
mod host;
mod processors;
mod sysctl_file;
mod tcp;

pub(super) use host::Host;
pub use sysctl_file::SysctlFile;

use penstock_api::operate::Finding;

/// Returns the findings about the tuning of a host.
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

    /// Promise: an unknown host gets no finding that asks for a change.
    #[test]
    fn an_unknown_host_is_left_in_peace() {
        let tuning = HostTuning::default();
        let host = Host { tuning: &tuning, devices: &[], cpus: &[], measured: &[] };
        let findings = judge(&host);
        assert!(findings.iter().all(|found| found.level == Level::Ok), "{findings:?}");
    }
}
