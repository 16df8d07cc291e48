//! `penstock site rotate`: other keys for the site.

use std::time::{Duration, Instant};

use penstock_api::endpoints::{LIST_SITES, ROTATE_KEYS};
use penstock_api::keys::RotateReply;
use penstock_api::rest::SiteView;
use penstock_proto::id::Name;

use crate::client::Client;
use penstock_exit as exit;

/// Longest wait for paired sites; each is told until it has confirmed.
const HEARD_MAX: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(200);

/// Replaces the site's keys.
///
/// # Errors
/// No daemon answers, or what it answers.
pub(crate) fn rotate(client: &Client, json: bool) -> anyhow::Result<()> {
    let reply: RotateReply = client.post(&ROTATE_KEYS.uri(&[]), &())?;
    if json {
        return Ok(exit::print(&serde_json::to_string(&reply)?)?);
    }
    tell(client, &reply)
}

/// Says which keys the site has now, and which other hosts and sites have yet to learn of them.
///
/// # Errors
/// Standard output cannot be written, or no daemon answers.
pub(crate) fn tell(client: &Client, reply: &RotateReply) -> anyhow::Result<()> {
    exit::print(&format!("fingerprint {}", reply.fingerprint))?;
    for peer in &reply.left_behind {
        exit::warn(&format!(
            "host `{peer}` did not answer and has the old keys: let it join again with `penstock \
             site join`"
        ));
    }
    for site in unheard(client)? {
        exit::warn(&format!(
            "site `{site}` does not know the new keys yet and trusts the old ones; it is informed \
             when it answers (`penstock site list`)"
        ));
    }
    Ok(())
}

fn unheard(client: &Client) -> anyhow::Result<Vec<Name>> {
    let until = Instant::now() + HEARD_MAX;
    loop {
        let sites: Vec<SiteView> = client.list(&LIST_SITES.uri(&[]))?;
        let unheard: Vec<_> = sites.into_iter().filter(|site| site.unheard).collect();
        if unheard.is_empty() || Instant::now() >= until {
            return Ok(unheard.into_iter().map(|site| site.name).collect());
        }
        std::thread::sleep(LOOK);
    }
}
