//! Connections to a source that are made while its site is asked for the data set.
//!
//! Over distance the first byte waits for one round trip after another: the site's answer, then
//! TCP, TLS, hello and fetch. The first two can overlap where the paths of the lanes are known.
//! Where no path was tried yet, all paths that may lead there are dialled, once. No byte is sent on
//! such a connection before a lane takes it. A connection that no lane takes within [`KEPT`] is
//! closed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self};
use std::time::Duration;

use penstock_engine::paths::{LocalEnd, PathEnds, PathState, pair};
use penstock_net::SocketOptions;
use penstock_proto::id::Name;
use penstock_proto::network::DataAddress;

use crate::lane::path_book::PathBook;
use crate::lane::path_notes::{PathNote, bind_of, key_of};

/// Time for which a connection waits for its lane. Far longer than the answer of a site, far
/// shorter than a source's patience for a silent connection.
const KEPT: Duration = Duration::from_secs(3);
/// A round trip that is worth it.
const FAR: Duration = Duration::from_millis(2);
/// Number of lanes that are opened at once over a long path (0007).
const LANES: u32 = 8;

/// Dials connections to a site ahead, for up to `lanes_max` lanes (0: the best number). Uses the
/// long paths of the last transfer that leave from one of `locals`. If no path was tried yet, uses
/// one path of each link from there to `peers`, once. Does not block. A connection that fails is
/// dialled by its lane again.
pub(crate) fn dial(
    book: &Arc<PathBook>,
    (site, peers): (&Name, &[DataAddress]),
    (locals, lanes_max): (&[LocalEnd], u32),
    options: &SocketOptions,
) {
    let serves = |note: &PathNote| {
        let is_far = note.rtt.is_some_and(|rtt| rtt >= FAR);
        // The state of an only path may stay untried.
        let carries = matches!(note.state, PathState::Carrying | PathState::Untried);
        is_far && carries && locals.contains(&note.ends.local)
    };
    let lanes = if lanes_max == 0 { LANES } else { lanes_max.min(LANES) } as usize;
    let known = book.of_site(site);
    let paths: Vec<PathEnds> = if known.is_empty() {
        let mut paths = pair(locals, peers, &[]).paths;
        let mut links = BTreeSet::new();
        paths.retain(|ends| links.insert(ends.link));
        paths.truncate(lanes);
        // The attempt is not repeated: it may lead nowhere, and no lane waits for it.
        paths.iter().for_each(|ends| book.note(site, ends, |_| {}));
        paths
    } else {
        known.into_iter().filter(serves).map(|note| note.ends).take(lanes).collect()
    };
    let mut begun = Vec::new();
    {
        let mut ahead = book.ahead.lock();
        if paths.is_empty() || ahead.all.iter().any(|(_, (of, ..), _)| of == site) {
            return;
        }
        for ends in paths.iter().cycle().take(lanes) {
            let (made, coming) = mpsc::channel();
            ahead.next += 1;
            let number = ahead.next;
            ahead.all.push((number, key_of(site, ends), coming));
            begun.push((number, ends.clone(), made));
        }
    }
    for (number, ends, made) in begun {
        let (kept, options) = (Arc::clone(book), options.clone());
        let thread = std::thread::Builder::new().name("ahead".to_owned());
        let started = thread.spawn(move || {
            let address = ends.remote.address;
            match penstock_net::dial(address, &bind_of(&ends.local), KEPT, &options) {
                Ok(dialled) => {
                    // A lane that waits for the connection takes it; otherwise it is closed after
                    // the wait.
                    if made.send(dialled).is_ok() {
                        std::thread::sleep(KEPT);
                    }
                }
                Err(error) => tracing::debug!(%address, %error, "not dialled ahead"),
            }
            kept.ahead.forget(number);
        });
        if let Err(error) = started {
            tracing::debug!(%error, "no thread to dial ahead");
            book.ahead.forget(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{SocketAddr, TcpListener};

    use penstock_net::Dialled;

    use super::*;

    fn to(address: SocketAddr) -> PathEnds {
        let peer = "one".parse().unwrap();
        let remote = DataAddress { peer, address, network: None, rate_bits_per_s: None };
        PathEnds { local: LocalEnd::default(), remote, link: 0 }
    }

    /// Returns a book that knows this path to site `far`.
    fn book(ends: &PathEnds, rtt: Duration, state: PathState) -> (Arc<PathBook>, Name) {
        let (book, site) = (Arc::<PathBook>::default(), "far".parse().unwrap());
        book.note(&site, ends, |note| (note.rtt, note.state) = (Some(rtt), state));
        (book, site)
    }

    /// Promise: the lanes of a transfer over a long path that is known find their connections made,
    /// as many as there may be, each once; those that none takes are closed.
    #[test]
    fn lanes_find_their_connections_made() {
        let source = TcpListener::bind("127.0.0.1:0").unwrap();
        let ends = to(source.local_addr().unwrap());
        let (book, site) = book(&ends, Duration::from_millis(90), PathState::Carrying);
        let (locals, options) = (vec![LocalEnd::default()], SocketOptions::default());
        dial(&book, (&site, &[]), (&locals, 3), &options);
        dial(&book, (&site, &[]), (&locals, 3), &options);
        let most = Duration::from_secs(60);
        let elsewhere = to("127.0.0.1:1".parse().unwrap());
        assert!(book.ahead.take(&site, &elsewhere, most, &options).is_err());
        // The path may have another description since.
        let again = PathEnds { link: 7, ..ends.clone() };
        let take = || book.ahead.take(&site, &again, most, &options).map(Dialled::into_tcp);
        let taken = [take().unwrap(), take().unwrap()];
        let mut accepted: Vec<_> = (0..3).map(|_| source.accept().unwrap().0).collect();
        let used = taken.each_ref().map(|connection| connection.local_addr().unwrap());
        accepted.retain(|connection| !used.contains(&connection.peer_addr().unwrap()));
        let [left] = &mut accepted[..] else { panic!("one was left: {accepted:?}") };
        assert_eq!(left.read(&mut [0]).unwrap(), 0, "closed in time");
        assert!(take().is_err());
    }

    /// Promise: the first transfer from a far site too finds connections made, over each link that
    /// may lead there.
    #[test]
    fn the_first_transfer_finds_connections_made() {
        let source = TcpListener::bind("127.0.0.1:0").unwrap();
        let ends = to(source.local_addr().unwrap());
        let (book, site) = (Arc::<PathBook>::default(), "far".parse().unwrap());
        let (locals, options) = (vec![LocalEnd::default()], SocketOptions::default());
        let other = TcpListener::bind("127.0.0.2:0").unwrap();
        let others = to(other.local_addr().unwrap());
        let peers = [ends.remote.clone(), others.remote.clone()];
        dial(&book, (&site, &peers), (&locals, 2), &options);
        for (listener, ends) in [(&source, &ends), (&other, &others)] {
            let taken = book.ahead.take(&site, ends, Duration::from_secs(60), &options);
            assert!(taken.is_ok() && listener.accept().is_ok());
        }
    }

    /// Promise: a connection that the source has closed while it waited is no lane's: the lane
    /// dials for itself, with the time that is left.
    #[test]
    fn what_died_while_it_waited_is_not_used() {
        let source = TcpListener::bind("127.0.0.1:0").unwrap();
        let ends = to(source.local_addr().unwrap());
        let (book, site) = book(&ends, Duration::from_millis(90), PathState::Untried);
        let (locals, options) = (vec![LocalEnd::default()], SocketOptions::default());
        dial(&book, (&site, &[]), (&locals, 1), &options);
        drop(source.accept().unwrap());
        let most = Duration::from_secs(60);
        let left = book.ahead.take(&site, &ends, most, &options).unwrap_err();
        assert!(left <= most && left > most / 2, "{left:?}");
    }

    /// Promise: no path is dialled ahead without a use. Such paths are short, did not carry last
    /// time, or leave from an address that lanes no longer use. An untried path is dialled once.
    #[test]
    fn nothing_is_dialled_in_vain() {
        let source = TcpListener::bind("127.0.0.1:0").unwrap();
        let ends = to(source.local_addr().unwrap());
        let (here, peers) = ([LocalEnd::default()], [ends.remote.clone()]);
        let begun = |book: &Arc<PathBook>, site: &Name, locals: &[LocalEnd], peers: &[_]| {
            dial(book, (site, peers), (locals, 0), &SocketOptions::default());
            book.ahead.lock().next
        };
        for (rtt, state, locals) in [
            (90, PathState::Dead, &here[..]),
            (90, PathState::Standby, &here),
            (1, PathState::Carrying, &here),
            (90, PathState::Carrying, &[]),
        ] {
            let (book, site) = book(&ends, Duration::from_millis(rtt), state);
            assert_eq!(begun(&book, &site, locals, &peers), 0, "{rtt} ms, {state:?}");
        }
        let (book, site) = (Arc::<PathBook>::default(), "far".parse().unwrap());
        assert_eq!(begun(&book, &site, &here, &[]), 0, "a near site");
        assert_eq!(begun(&book, &site, &here, &peers), u64::from(LANES));
        while book.ahead.take(&site, &ends, KEPT, &SocketOptions::default()).is_ok() {}
        assert_eq!(begun(&book, &site, &here, &peers), u64::from(LANES), "again");
    }
}
