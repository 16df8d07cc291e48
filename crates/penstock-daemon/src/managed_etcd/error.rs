//! Reasons why this host's etcd does not work as configured, in words for operators.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use penstock_cluster::etcd::EtcdError;
use penstock_exit::{chain, hint_of};
use penstock_net::trust::TrustError;

/// The reason why the keeper cannot do a part of its work.
///
/// A text contains its cause, as it is one line of `penstock site status`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeeperError {
    /// The process cannot be looked at or ended, or a file beside it cannot be written.
    #[error("etcd of this host: {0}")]
    Process(io::Error),
    /// The log cannot be emptied.
    #[error("the log of etcd: {0}")]
    Log(io::Error),
    /// The certificate that this host shows to etcd cannot be issued or used.
    #[error("the certificate for etcd: {0:#}")]
    ClientCertificate(anyhow::Error),
    /// The certificate of the member cannot be issued.
    #[error("etcd's certificate cannot be issued: {}", chain(.0))]
    MemberCertificate(TrustError),
    /// No program was found that can be trusted with records.
    #[error("{0:#}; {hint}", hint = hint_of(.0).unwrap_or_default())]
    Program(anyhow::Error),
    /// The program was found and cannot be started.
    #[error("etcd cannot be started: {0}")]
    Start(io::Error),
    /// The member ends again and again before it answers.
    #[error("etcd of this host ended {times} times without an answer; see `{}`", .log.display())]
    Ends { times: u32, log: PathBuf },
    /// The file about the member cannot be written.
    #[error("member.json: {0}")]
    Note(io::Error),
    /// The data of a member that was removed cannot be put aside.
    #[error("etcd's data: {0}")]
    Discard(io::Error),
    /// The member has not caught up with the others.
    #[error("etcd of this host has no vote yet: {0}")]
    NoVote(EtcdError),
    /// etcd cannot be set to ask for the password of the site.
    #[error("etcd's password cannot be set: {0}")]
    Password(EtcdError),
    /// The database is full and cannot be packed.
    #[error("etcd's quota is used up, and packing failed: {0}")]
    Quota(EtcdError),
    /// The members cannot be listed.
    #[error("the site's etcd: {0}")]
    Members(EtcdError),
    /// The member cannot be added to the others.
    #[error("this host's etcd cannot join the others: {0}")]
    Join(EtcdError),
    /// Members are added one at a time.
    #[error("another host's etcd is joining; this one's waits")]
    Joining,
    /// The others have removed the member of this host, and another host has its name.
    #[error("another host runs the etcd of peer `{0}` by now")]
    NameTaken(String),
    /// A second host has the name of this one and is not gone.
    #[error(
        "another host of the name `{name}` lives: its etcd answers at {address}; switch it off if \
         this one is to take its place, or set this one up under another name"
    )]
    NamesakeLives { name: String, address: SocketAddr },
    /// The member is to continue alone and has no data.
    #[error("this host has no etcd of its own to continue with")]
    NoData,
    /// A new etcd is to be begun where the data of one is.
    #[error("this host still has the data of etcd; `penstock site takeover` continues with it")]
    HasData,
    /// The member is to be the only one and does not come to lead.
    #[error("etcd of this host does not lead; see `{}`", .0.display())]
    NoLead(PathBuf),
    /// An order was not carried out in time.
    #[error("etcd takes too long")]
    TooSlow,
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_exit::{ExitCode, Failure};

    /// Promise: an operator without etcd gets the failed action, its reason, and the package to
    /// install, in one line.
    #[test]
    fn a_program_that_lacks_is_explained_in_one_line() {
        let cause = io::Error::from(io::ErrorKind::NotFound);
        let failure = Failure::new(ExitCode::Fatal, "the program `etcd` cannot be run")
            .caused_by(cause)
            .hint("install etcd");
        let error = KeeperError::Program(failure.into());
        let text = "the program `etcd` cannot be run: entity not found; install etcd";
        assert_eq!(error.to_string(), text);
    }
}
