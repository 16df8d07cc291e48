//! The named networks that lead from the own site to another.

use std::collections::BTreeSet;

use penstock_api::endpoints::SHOW_PATHS;
use penstock_api::paths::PathsView;
use penstock_exit::{ExitCode, Failure};
use penstock_proto::id::Name;

use super::ways::Pair;
use crate::client::Client;

/// Returns the networks whose paths reach the other site now, by the names of the own site. Blocks
/// for a test of all paths.
///
/// # Errors
/// The paths cannot be listed, or no path that works has a named network.
pub(super) fn reachable_networks(client: &Client, pair: &Pair) -> anyhow::Result<Vec<Name>> {
    let paths: PathsView = client.get(&SHOW_PATHS.uri(&[&pair.other]))?;
    let names = names_of(&paths);
    if names.is_empty() {
        let message = format!("no path to site `{}` that works has a named network", pair.other);
        return Err(Failure::new(ExitCode::Refused, message)
            .hint(format!(
                "`penstock site paths {}` lists the paths; name networks by `[[network]]` in \
                 penstock.toml, and reload",
                pair.other
            ))
            .into());
    }
    Ok(names)
}

fn names_of(paths: &PathsView) -> Vec<Name> {
    let reached = paths.outward.iter().filter(|path| path.reachable);
    // Where the sites call a network differently, its words are `fast0 to lan`.
    let own = reached.filter_map(|path| path.network.split(' ').next()?.parse().ok());
    own.collect::<BTreeSet<Name>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Promise: the networks are those of paths that work, each once, by the name of the own site.
    #[test]
    fn networks_that_work_are_listed() {
        let path = |network: &str, reachable: bool| {
            json!({
                "peer": "h1", "to_peer": "dtn1", "from": "10.0.0.1%eth1", "to": "10.0.0.2:7444",
                "network": network, "reachable": reachable, "why": "", "rtt_us": null,
                "rate_bits_per_s": null, "state": "untried", "since": 0, "last_failure": "",
            })
        };
        let outward = [
            path("fast1 to lan", true),
            path("fast0", true),
            path("fast0", true),
            path("fast2", false),
            path("", true),
        ];
        let view = json!({
            "site": "hpc", "outward": outward, "inward": [path("mgmt", true)], "inward_problem": "",
        });
        let names = names_of(&serde_json::from_value(view).unwrap());
        assert_eq!(names.iter().map(Name::as_str).collect::<Vec<_>>(), ["fast0", "fast1"]);
    }
}
