//! The two ends of a sweep: their sites and stores, and the daemons that know them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use penstock_api::endpoints::{
    EndpointUri, LIST_SITE_STORES, LIST_SITES, MAKE_PLAN, SHOW_SITE_STORE_USAGE, SHOW_STATUS,
    SHOW_STORE,
};
use penstock_api::place::{Location, PathText};
use penstock_api::plan::{PlanItem, PlanReader};
use penstock_api::problem::ProblemCode;
use penstock_api::rest::{
    SiteStoreView, SiteView, StatusView, StoreDetails, StoreSpace, StoreState, StoreUsage,
    SubmitRequest,
};
use penstock_api::transfer::TransferRequest;
use penstock_exit::{ExitCode, Failure, failure};
use penstock_proto::id::Name;

use super::matrix::{Direction, Matrix};
use super::record::Run;
use crate::client::Client;
use crate::commands::plan;

/// The ends, and the daemons that are asked.
pub(super) struct Ends {
    /// The site whose daemon is asked for transfers.
    pub(super) own: Name,
    /// Release of that daemon.
    pub(super) version: String,
    pub(super) source: End,
    pub(super) target: End,
    /// Daemons by their sites, the own one among them.
    pub(super) clients: BTreeMap<Name, Client>,
}

/// A directory of a store.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) site: Name,
    pub(super) store: Name,
    pub(super) dir: PathText,
    /// The store's directory on the host of its daemon, where a daemon says it.
    root: Option<PathBuf>,
    pub(super) space: Option<StoreSpace>,
    rights: Rights,
}

/// What transfers of the caller may do there.
#[derive(Clone, Copy, Debug)]
struct Rights {
    read: bool,
    write: bool,
    delete: bool,
}

impl End {
    /// Returns a path below the directory.
    pub(super) fn path(&self, below: &str) -> PathText {
        let dir = &self.dir.0;
        let between: &[u8] = if dir.is_empty() || below.is_empty() { b"" } else { b"/" };
        PathText([dir, between, below.as_bytes()].concat())
    }

    /// Returns a place in the store, of the contents of a directory if `slash` says so.
    pub(super) fn at(&self, path: PathText, slash: bool) -> Location {
        Location { site: self.site.clone(), store: self.store.clone(), path, slash }
    }

    /// Returns where a path of the store would be on this host, if it is on this host.
    pub(super) fn on_host(&self, path: &PathText) -> Option<PathBuf> {
        Some(self.root.as_ref()?.join(OsStr::from_bytes(&path.0)))
    }

    /// Returns whether the directory seems to be on this host.
    pub(super) fn seems_local(&self) -> bool {
        self.on_host(&self.dir).is_some_and(|path| path.is_dir())
    }

    /// Returns its place in words.
    pub(super) fn shown(&self) -> String {
        self.at(self.dir.clone(), false).to_string()
    }
}

impl Ends {
    /// Asks the daemons for both ends. Nothing is changed.
    ///
    /// # Errors
    /// A daemon does not answer; the sites are not paired; a store is not there, or is offline; the
    /// caller may not read or write there.
    pub(super) fn ask(matrix: &Matrix, directory: &Path) -> anyhow::Result<Self> {
        let own = Client::new(directory)?;
        let status: StatusView = own.get(&SHOW_STATUS.uri(&[]))?;
        let name = status.site.name.clone();
        let Some((source, target)) = matrix.places() else {
            return Err(Failure::new(ExitCode::Usage, "the matrix lacks a place").into());
        };
        if ![&source.site, &target.site].contains(&&name) {
            let message = format!("neither source nor target is of site `{name}`, which is asked");
            return Err(Failure::new(ExitCode::Usage, message)
                .hint("ask a daemon of one of them, by `--dir` or `PENSTOCK_URL`")
                .into());
        }
        let sites: Vec<SiteView> = own.list(&LIST_SITES.uri(&[]))?;
        for site in [&source.site, &target.site] {
            if !sites.iter().any(|known| known.name == *site) {
                let message = format!("site `{name}` is not paired with site `{site}`");
                return Err(Failure::new(ExitCode::Refused, message)
                    .hint("`penstock site pair` pairs two sites")
                    .into());
            }
        }
        let mut clients = BTreeMap::from([(name.clone(), own)]);
        for (site, address) in &matrix.daemons {
            clients.entry(site.clone()).or_insert(client_of(site, address)?);
        }
        let end = |place: &Location| end_of(&clients, &name, place);
        let (source, target) = (end(source)?, end(target)?);
        let ends = Self { own: name, version: status.version, source, target, clients };
        ends.check_rights(matrix)?;
        Ok(ends)
    }

    fn check_rights(&self, matrix: &Matrix) -> anyhow::Result<()> {
        for direction in matrix.direction.all() {
            let (from, to) = self.of(*direction);
            for (end, right, has) in
                [(from, "read from", from.rights.read), (to, "write to", to.rights.write)]
            {
                if !has {
                    let (store, site) = (&end.store, &end.site);
                    let message = format!("you may not {right} store `{store}` of site `{site}`");
                    return Err(Failure::new(ExitCode::NotAuthorised, message)
                        .hint(
                            "a grant of the user gives the right at the own site, `penstock site \
                             grant` at another one",
                        )
                        .into());
                }
            }
            // What cells leave at another host is deleted by transfers.
            if to.site != self.own && !to.rights.delete && !to.seems_local() {
                let (store, site) = (&to.store, &to.site);
                let message =
                    format!("this site may delete nothing in store `{store}` of `{site}`");
                return Err(Failure::new(ExitCode::NotAuthorised, message)
                    .hint(format!(
                        "a sweep clears its directory between cells: an operator there can run \
                         `penstock site grant {} --delete {store}`",
                        self.own
                    ))
                    .into());
            }
        }
        Ok(())
    }

    /// Checks that the site is the one at which a sweep was begun.
    ///
    /// # Errors
    /// It is another one.
    pub(super) fn check_site(&self, run: &Run) -> anyhow::Result<()> {
        if run.asked == self.own.as_str() {
            return Ok(());
        }
        let (begun, own) = (&run.asked, &self.own);
        let message = format!("the sweep was begun at site `{begun}`, this is site `{own}`");
        Err(Failure::new(ExitCode::Refused, message)
            .hint(format!("ask a daemon of site `{begun}`, by `--dir` or `PENSTOCK_URL`"))
            .into())
    }

    /// Returns the ends from which and to which a direction goes.
    pub(super) fn of(&self, direction: Direction) -> (&End, &End) {
        match direction {
            Direction::Forward => (&self.source, &self.target),
            Direction::Reverse => (&self.target, &self.source),
        }
    }

    /// Returns the client of the daemon that is asked for transfers.
    pub(super) fn client(&self) -> anyhow::Result<&Client> {
        let missing = || Failure::new(ExitCode::Unclassified, "there is no daemon to ask");
        Ok(self.clients.get(&self.own).ok_or_else(missing)?)
    }

    /// Makes a directory whose parent exists; one that exists is right too.
    ///
    /// # Errors
    /// What the daemon answers.
    pub(super) fn make_directory(&self, end: &End, path: PathText) -> anyhow::Result<()> {
        self.client()?.make_directory(&self.own, &end.at(path, false))
    }

    /// Checks that a directory that the matrix names is there; `what` names it in the error.
    ///
    /// # Errors
    /// It is not, or cannot be listed.
    pub(super) fn check_directory(
        &self,
        end: &End,
        path: &PathText,
        what: &str,
    ) -> anyhow::Result<()> {
        let place = end.at(path.clone(), false);
        let Err(problem) = self.client()?.look(&self.own, &place, &PathText::default())? else {
            return Ok(());
        };
        if problem.code == ProblemCode::EntryUnknown {
            let message = format!("{what}, `{place}`, does not exist");
            return Err(Failure::new(ExitCode::Usage, message)
                .hint(format!("`penstock store mkdir {place}` makes a directory"))
                .into());
        }
        let error = anyhow::Error::from(failure(problem));
        Err(error.context(format!("{what}, `{place}`, cannot be used")))
    }

    /// Returns whether a directory is there.
    ///
    /// # Errors
    /// It cannot be listed; a daemon does not answer now.
    pub(super) fn has_directory(&self, end: &End, path: &PathText) -> anyhow::Result<bool> {
        let place = end.at(path.clone(), false);
        match self.client()?.look(&self.own, &place, &PathText::default())? {
            Ok(_) => Ok(true),
            Err(problem) if problem.code == ProblemCode::EntryUnknown => Ok(false),
            Err(problem) => Err(failure(problem).into()),
        }
    }

    /// Has a plan made, and passes each item to `each`.
    ///
    /// # Errors
    /// What the daemon answers; the plan broke off.
    pub(super) fn plan(
        &self,
        request: TransferRequest,
        mut each: impl FnMut(&PlanItem),
    ) -> anyhow::Result<()> {
        let lost = |error| Failure::io("read the plan that was made", error);
        let mut file: File =
            plan::nameless().map_err(|error| Failure::io("make a file for the plan", error))?;
        let request = SubmitRequest::from(request);
        self.client()?.post_into(&MAKE_PLAN.uri(&[]), &request, &mut file)?;
        file.rewind().map_err(lost)?;
        let (mut reader, _) = PlanReader::open(BufReader::new(&file)).map_err(failure)?;
        while let Some((_, item)) = reader.item().map_err(failure)? {
            each(&item);
        }
        Ok(())
    }
}

/// Returns the client of a daemon of another site.
fn client_of(site: &Name, address: &str) -> anyhow::Result<Client> {
    let client = Client::named(address)?;
    let status: StatusView = client.get(&SHOW_STATUS.uri(&[]))?;
    if status.site.name != *site {
        let is = &status.site.name;
        let message = format!("`{address}` is a daemon of site `{is}`, not of `{site}`");
        let hint = "put it right in the table `daemons` of the matrix";
        return Err(Failure::new(ExitCode::Usage, message).hint(hint).into());
    }
    Ok(client)
}

fn end_of(clients: &BTreeMap<Name, Client>, own: &Name, place: &Location) -> anyhow::Result<End> {
    let Location { site, store, path, .. } = place;
    let show: EndpointUri = SHOW_STORE.uri(&[store]);
    let details: Option<StoreDetails> = match clients.get(site) {
        Some(client) => Some(client.get(&show)?),
        None => None,
    };
    if let Some(details) = details.as_ref().filter(|found| found.state != StoreState::Online) {
        let message = format!("store `{store}` of site `{site}` cannot be used now");
        return Err(Failure::new(ExitCode::Temporary, message)
            .caused_by(details.why.clone())
            .into());
    }
    let root = details.as_ref().map(|details| PathBuf::from(&details.store.place));
    let root = root.filter(|root| root.is_absolute());
    let (rights, space) = match (&details, site == own) {
        (Some(details), true) => {
            let (read, write) = (details.rights.read, details.rights.write);
            let write = write && !details.store.read_only;
            (Rights { read, write, delete: write }, details.space)
        }
        _ => {
            let asked = clients
                .get(own)
                .ok_or_else(|| Failure::new(ExitCode::Unclassified, "there is no daemon to ask"))?;
            let stores: Vec<SiteStoreView> = asked.list(&LIST_SITE_STORES.uri(&[site]))?;
            let found = stores.iter().find(|known| known.name == *store).ok_or_else(|| {
                let message = format!("site `{site}` lets this site use no store `{store}`");
                Failure::new(ExitCode::NotAuthorised, message)
                    .hint(format!("`penstock store list {site}` lists those that it does"))
            })?;
            let usage = asked.get::<StoreUsage>(&SHOW_SITE_STORE_USAGE.uri(&[site, store]));
            let space = usage.ok().and_then(|usage| usage.space);
            let SiteStoreView { read, write, delete, .. } = *found;
            (Rights { read, write, delete }, space.or(details.and_then(|details| details.space)))
        }
    };
    let (site, store, dir) = (site.clone(), store.clone(), path.clone());
    Ok(End { site, store, dir, root, space, rights })
}
