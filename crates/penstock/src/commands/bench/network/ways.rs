//! The ways between two sites that can be measured: from each `mem:` store of one to a `null:`
//! store of the other.
//!
//! The own site says what its stores are. Of another site's stores a `null:` one can be written to
//! and is on no file system; a `mem:` one can be read, is on none either, and can be listed.

use penstock_api::endpoints::{
    LIST_ENTRIES, LIST_SITE_ENTRIES, LIST_SITE_STORES, LIST_SITES, LIST_STORES,
    SHOW_SITE_STORE_USAGE, SHOW_STORE,
};
use penstock_api::place::{Location, PathText};
use penstock_api::rest::{EntryList, SiteStoreView, SiteView, StoreDetails, StoreUsage, StoreView};
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::Name;

use crate::client::Client;

/// A way: the stores of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) source: Location,
    pub(super) target: Location,
    /// True if the bytes go from the site that is asked to the other one.
    pub(super) is_outward: bool,
}

/// The sites at both ends.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) own: Name,
    pub(super) other: Name,
}

impl Pair {
    /// Returns the own site and the one that is wanted, or the only one that is paired.
    ///
    /// # Errors
    /// No site is paired, or several are and none is named.
    pub(super) fn ask(client: &Client, wanted: Option<&Name>) -> anyhow::Result<Self> {
        let sites: Vec<SiteView> = client.list(&LIST_SITES.uri(&[]))?;
        let own = sites.iter().find(|site| site.own).map(|site| site.name.clone());
        let missing = || Failure::new(ExitCode::Unclassified, "the daemon does not name its site");
        let own = own.ok_or_else(missing)?;
        let others: Vec<&Name> =
            sites.iter().filter(|site| !site.own).map(|site| &site.name).collect();
        let failure = match (wanted, &others[..]) {
            (Some(wanted), _) if others.contains(&wanted) => {
                return Ok(Self { own, other: wanted.clone() });
            }
            (None, [only]) => return Ok(Self { own, other: (*only).clone() }),
            (Some(wanted), _) => {
                Failure::new(ExitCode::Usage, format!("site `{own}` is not paired with `{wanted}`"))
                    .hint("`penstock site list` lists those that it is paired with")
            }
            (None, []) => {
                Failure::new(ExitCode::Usage, format!("site `{own}` is paired with no site"))
                    .hint("`penstock site pair` pairs two sites")
            }
            (None, several) => {
                let names: Vec<String> = several.iter().map(|name| format!("`{name}`")).collect();
                let message = format!("site `{own}` is paired with {}", names.join(", "));
                Failure::new(ExitCode::Usage, message).hint("name one of them")
            }
        };
        Err(failure.into())
    }
}

/// Stores of a site that generate data, and one that keeps none.
#[derive(Debug, Default)]
struct Ends {
    generating: Vec<Name>,
    discarding: Option<Name>,
}

/// Returns the ways in both directions. Warns of a direction that lacks a store.
///
/// # Errors
/// Neither direction has both stores: exit 6, with the reasons.
pub(super) fn ways(client: &Client, pair: &Pair) -> anyhow::Result<Vec<Way>> {
    let own = own_ends(client)?;
    let other = other_ends(client, &pair.other)?;
    let mut ways = Vec::new();
    let mut lacks = Vec::new();
    for (from, to, is_outward) in [
        ((&pair.own, &own), (&pair.other, &other), true),
        ((&pair.other, &other), (&pair.own, &own), false),
    ] {
        let why = match (from.1.generating.is_empty(), &to.1.discarding) {
            (false, Some(target)) => {
                let at = |site: &Name, store: &Name| Location {
                    site: site.clone(),
                    store: store.clone(),
                    path: PathText::default(),
                    slash: false,
                };
                ways.extend(from.1.generating.iter().map(|source| Way {
                    source: at(from.0, source),
                    target: at(to.0, target),
                    is_outward,
                }));
                continue;
            }
            (true, Some(_)) => lack(pair, from.0, "mem"),
            (false, None) => lack(pair, to.0, "null"),
            (true, None) => format!("{}; {}", lack(pair, from.0, "mem"), lack(pair, to.0, "null")),
        };
        lacks.push(format!("from {} to {}: {why}", from.0, to.0));
    }
    if ways.is_empty() {
        let message =
            format!("nothing can be measured between `{}` and `{}`", pair.own, pair.other);
        return Err(Failure::new(ExitCode::Refused, message)
            .caused_by(lacks.join("; "))
            .hint(HINT)
            .into());
    }
    lacks.iter().for_each(|why| exit::warn(&format!("not measured {why}")));
    Ok(ways)
}

const HINT: &str = "each site needs two stores in penstock.toml: one with `path = \
    \"mem:files=1024,size=64M,dirs=64\"` that the other may read, and one with `path = \"null:\"` \
    that it may write to (`write`); then reload";

fn lack(pair: &Pair, site: &Name, kind: &str) -> String {
    match *site == pair.own {
        true => format!("site `{site}` has no `{kind}:` store that you may use"),
        false => {
            let may = if kind == "mem" { "read" } else { "write to" };
            format!("site `{site}` lets site `{}` {may} no `{kind}:` store", pair.own)
        }
    }
}

fn own_ends(client: &Client) -> anyhow::Result<Ends> {
    let stores: Vec<StoreView> = client.list(&LIST_STORES.uri(&[]))?;
    let mut ends = Ends::default();
    for store in stores {
        let (is_mem, is_null) = (store.place.starts_with("mem:"), store.place == "null:");
        if !is_mem && !is_null {
            continue;
        }
        let details: StoreDetails = client.get(&SHOW_STORE.uri(&[&store.name]))?;
        if is_mem && details.rights.read {
            ends.generating.push(store.name);
        } else if is_null && details.rights.write && !store.read_only {
            ends.discarding.get_or_insert(store.name);
        }
    }
    Ok(ends)
}

fn other_ends(client: &Client, site: &Name) -> anyhow::Result<Ends> {
    let stores: Vec<SiteStoreView> = client.list(&LIST_SITE_STORES.uri(&[site]))?;
    let mut ends = Ends::default();
    for store in stores {
        let usage: anyhow::Result<StoreUsage> =
            client.get(&SHOW_SITE_STORE_USAGE.uri(&[site, &store.name]));
        // A store that is offline or hangs is none of these.
        let Ok(StoreUsage { space: None }) = usage else { continue };
        let uri = LIST_SITE_ENTRIES.uri(&[site, &store.name]).query("limit", 1);
        let can_be_listed = client.get::<EntryList>(&uri).is_ok();
        if can_be_listed && store.read {
            ends.generating.push(store.name);
        } else if !can_be_listed && store.write {
            ends.discarding.get_or_insert(store.name);
        }
    }
    Ok(ends)
}

/// Returns the address of the entries of a directory of a way's source.
pub(super) fn entries_uri(way: &Way, path: &PathText) -> penstock_api::endpoints::EndpointUri {
    let Location { site, store, .. } = &way.source;
    let uri = match way.is_outward {
        true => LIST_ENTRIES.uri(&[store]),
        false => LIST_SITE_ENTRIES.uri(&[site, store]),
    };
    uri.query("path", path)
}
