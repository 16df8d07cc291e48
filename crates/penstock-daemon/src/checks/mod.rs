//! Findings about this host, its site, and the paths to another site, with advice.
//!
//! | module | subject |
//! |---|---|
//! | `host` | clock, open files, kernel |
//! | `tuning` | the advice of fasterdata.es.net: TCP, processors, cards |
//! | `nics` | network cards and the networks that are configured |
//! | `stores` | stores and their file systems |
//! | `expiry` | certificates that end |
//! | `etcd` | members of etcd |
//! | `site` | the peers of a site, as one of them sees them |
//! | `pair` | the paths between two sites, from both ends |
//! | `measured` | figures of paths that transfers have measured |

pub mod etcd;
pub(crate) mod expiry;
pub(crate) mod host;
pub mod measured;
mod nics;
pub(crate) mod pair;
pub(crate) mod site;
mod stores;
mod tuning;

pub use tuning::SysctlFile;

use std::path::Path;

use expiry::expiry;
use measured::Measured;
use penstock_api::operate::{Finding, Level};
use penstock_net::trust::PeerCertificate;
use penstock_sys::HostTuning;

use crate::config::Config;
use crate::site_directory::TRUST_DIRECTORY;

/// Looks at this host: with the configuration and directory of its site, and with the measurements
/// of transfers. Blocks on storage.
pub fn local(site: Option<(&Config, &Path)>, measured: &[Measured]) -> Vec<Finding> {
    let mut findings = vec![host::clock(), host::open_files(), host::kernel()];
    let several = site.is_some_and(|(config, _)| nics::several(config));
    findings.extend(tuning::judge(&tuning::Host {
        tuning: &HostTuning::read(),
        devices: &site.map(|(config, _)| nics::data_devices(config)).unwrap_or_default(),
        cpus: &penstock_sys::allowed_cpus(),
        measured,
    }));
    if let Some((config, directory)) = site {
        findings.extend(nics::look(config, several));
        findings.extend(stores::look(config, directory));
        findings.push(certificate(directory));
    }
    findings
}

/// Returns the file of settings for sysctl(8) that suits this host, by the cards for data of its
/// site, or by all of them.
#[must_use]
pub fn sysctl_file(config: Option<&Config>) -> SysctlFile {
    SysctlFile::new(&HostTuning::read(), &config.map(nics::data_devices).unwrap_or_default())
}

fn certificate(directory: &Path) -> Finding {
    let code = "certificate";
    match PeerCertificate::load(&directory.join(TRUST_DIRECTORY)) {
        Ok(certificate) => expiry(code, "this peer's certificate", certificate.expires()),
        Err(error) => Finding::new(
            Level::Bad,
            code,
            format!("this peer's certificate cannot be read: {error}"),
            "the daemon does not start without it",
            "restore `trust/` of the site directory from a backup, or join the site again",
        ),
    }
}
