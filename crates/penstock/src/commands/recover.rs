//! `penstock site takeover`, `recover`, `remove`: when hosts of a site are lost for good.

use std::time::Duration;

use penstock_api::cluster::{RecoverRequest, RecoveredView, TakeoverRequest};
use penstock_proto::id::Name;

use crate::client::Client;
use penstock_exit as exit;

/// How long a takeover or a recovery may take: waiting until nobody leads, asking each host, and
/// etcd, which begins anew.
const DEADLINE: Duration = Duration::from_secs(300);

/// Which hosts are lost.
#[derive(clap::Args)]
pub(crate) struct TakeoverArgs {
    /// A host of which you have made sure that it is off, or reaches neither stores nor network.
    /// May be given again: all other hosts that run etcd must be named
    #[arg(long = "i-have-fenced", value_name = "HOST", required = true)]
    fenced: Vec<Name>,
}

/// What is left of etcd.
#[derive(clap::Args)]
pub(crate) struct RecoverArgs {
    /// Begin a new etcd at this host first: all members of the old one are lost
    #[arg(long)]
    new_etcd: bool,
}

/// Goes on with this host's etcd alone.
pub(crate) fn takeover(client: &Client, args: TakeoverArgs) -> anyhow::Result<()> {
    let request = TakeoverRequest { fenced: args.fenced };
    let view: RecoveredView = client.post_within("/cluster/takeover", &request, DEADLINE)?;
    tell(&view)?;
    exit::warn(
        "this host goes on alone. Hosts that come back have nothing to say, and join anew by \
         themselves",
    );
    Ok(())
}

/// Gives the site's records another incarnation.
pub(crate) fn recover(client: &Client, args: &RecoverArgs) -> anyhow::Result<()> {
    let request = RecoverRequest { new_etcd: args.new_etcd };
    tell(&client.post_within("/cluster/recover", &request, DEADLINE)?)
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
    client.delete(&format!("/cluster/hosts/{host}"))?;
    exit::warn(&format!(
        "etcd does without `{host}` from now on; another host of the site, or the next one that \
         joins, takes its place"
    ));
    Ok(())
}
