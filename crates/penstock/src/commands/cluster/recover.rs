//! `penstock site takeover`, `recover`, `remove`: when hosts of a site are lost for good.

use std::time::Duration;

use penstock_api::cluster::{RecoverRequest, RecoveredView, TakeoverRequest};
use penstock_api::endpoints::{RECOVER, REMOVE_HOST, TAKE_OVER};
use penstock_proto::id::Name;

use crate::client::Client;
use penstock_exit as exit;

/// How long a takeover or a recovery may take: waiting until nobody leads, asking each host, and
/// etcd, which begins anew.
const DEADLINE: Duration = Duration::from_secs(300);

/// Which hosts are lost.
#[derive(clap::Args)]
pub(crate) struct TakeoverArgs {
    /// A host that you have switched off, or cut off from stores and network. May be given more
    /// than once: name all other hosts that run etcd
    #[arg(long = "i-have-fenced", value_name = "HOST", required = true)]
    fenced: Vec<Name>,
}

/// What is left of etcd.
#[derive(clap::Args)]
pub(crate) struct RecoverArgs {
    /// First start a new etcd at this host, because all members of the old one are lost
    #[arg(long)]
    new_etcd: bool,
}

/// Goes on with this host's etcd alone.
pub(crate) fn takeover(client: &Client, args: TakeoverArgs) -> anyhow::Result<()> {
    let request = TakeoverRequest { fenced: args.fenced };
    let view: RecoveredView = client.post_within(&TAKE_OVER.uri(&[]), &request, DEADLINE)?;
    tell(&view)?;
    exit::warn(
        "this host continues alone. Hosts that return have no vote, and join again by themselves",
    );
    Ok(())
}

/// Gives the site's records another incarnation.
pub(crate) fn recover(client: &Client, args: &RecoverArgs) -> anyhow::Result<()> {
    let request = RecoverRequest { new_etcd: args.new_etcd };
    tell(&client.post_within(&RECOVER.uri(&[]), &request, DEADLINE)?)
}

fn tell(view: &RecoveredView) -> anyhow::Result<()> {
    let from = if view.from_journal { "the journal's copy" } else { "etcd" };
    exit::print(&format!(
        "incarnation {}: {} transfers, from {from}",
        view.incarnation, view.transfers
    ))?;
    Ok(())
}

/// Takes a host that is gone for good out of the site's etcd.
pub(crate) fn remove(client: &Client, host: &Name) -> anyhow::Result<()> {
    client.delete(&REMOVE_HOST.uri(&[host]))?;
    exit::warn(&format!(
        "`{host}` is removed from etcd; another host of the site, or the next one that joins, \
         takes its place"
    ));
    Ok(())
}
