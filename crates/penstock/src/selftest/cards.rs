//! The check that cuts a card in the middle of a transfer from another site, by a command of the
//! operator.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use penstock_api::endpoints::SHOW_TRANSFER_PATHS;
use penstock_api::operate::{TaskLoad, TaskPath, TransferPaths};
use penstock_api::rest::TransferView;
use penstock_api::transfer::TransferState;
use penstock_exit::{self as exit, ExitCode};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::units::{MIB, format_bytes};

use super::operator_command::{self, CardCut};
use super::outcome::{Outcome, broken, not_run, passed, unknown};
use super::trial::{SLOW_BITS_PER_S, SLOW_IN_FLIGHT_BYTES, Trial, by_digest, hurried, slow};

/// Name of the check.
pub(super) const CUT_CARD: &str = "cut-card";
/// Bytes that have come when the card is cut.
const CUT_AT_BYTES: u64 = 20 * MIB;
/// Bytes that have to come while it is cut, where another card carries.
const ON_OTHERS_BYTES: u64 = 8 * MIB;
/// Fewest bytes of the source: some are left when the card is restored.
const SOURCE_BYTES_MIN: u64 = 64 * MIB;
/// Most bytes of the source, which come into the scratch directory.
const SOURCE_BYTES_MAX: u64 = 256 * MIB;
/// Most bytes that may be sent again: all that was in flight, 4 MiB. It counts twice, as the
/// command that restores a card may break the lanes that have come back to it.
const AGAIN_BYTES_MAX: u64 = 2 * SLOW_IN_FLIGHT_BYTES;
/// Seconds after which a path over the cut card is given up where another one carries (promise
/// (f)), with some to spare.
const SECONDS_UNTIL_GIVEN_UP: u64 = 10;
// The check can fail: less may be sent again than has come, and the transfer is under way then.
const _: () = assert!(AGAIN_BYTES_MAX < CUT_AT_BYTES);
const _: () = assert!(
    CUT_AT_BYTES + SECONDS_UNTIL_GIVEN_UP * SLOW_BITS_PER_S / 8 + ON_OTHERS_BYTES
        < SOURCE_BYTES_MIN
);
/// Longest wait for a path to be given up, after which the command is taken to have cut none.
const GIVEN_UP_MAX: Duration = Duration::from_secs(60);
/// Half of the time for which a site's only card is cut: bytes under way may come in the first one,
/// and none in the second.
const CUT: Duration = Duration::from_secs(5);
/// How often the paths are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// A card that is cut until [`CutCard::heal`], or until the check ends in whatever way.
struct CutCard<'a> {
    heal: Option<&'a str>,
}

impl<'a> CutCard<'a> {
    fn cut(commands: &'a CardCut) -> anyhow::Result<Self> {
        // The command may have cut something before it failed.
        let card = Self { heal: Some(&commands.heal) };
        operator_command::run(&commands.cut, "--cut-card", None)?;
        Ok(card)
    }

    fn heal(mut self) -> anyhow::Result<()> {
        self.heal.take().map_or(Ok(()), run_heal)
    }
}

impl Drop for CutCard<'_> {
    fn drop(&mut self) {
        if let Some(heal) = self.heal.take()
            && let Err(error) = run_heal(heal)
        {
            exit::warn(&format!("{error:#}"));
        }
    }
}

fn run_heal(command: &str) -> anyhow::Result<()> {
    let healed = operator_command::run(command, "--heal-card", None);
    healed.context("the card may still be cut")
}

/// Cuts a card, and restores it.
pub(super) fn cut_card(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let Some(commands) = &trial.card_cut else {
        return not_run("it needs --cut-card, --heal-card and --from");
    };
    let request = trial.request_from(commands.from.clone(), CUT_CARD, slow());
    let id = trial.submit(&request)?.id;
    let is_known = |view: &TransferView| {
        view.progress.scan_complete || view.progress.bytes_found > SOURCE_BYTES_MAX
    };
    let found = trial.until(id, is_known)?.progress.bytes_found;
    if !(SOURCE_BYTES_MIN..=SOURCE_BYTES_MAX).contains(&found) {
        trial.cancel_all();
        let (from, found) = (&commands.from, format_bytes(found));
        return not_run(format!("`{from}` has {found}; take a source of 64 to 256 MiB"));
    }
    trial.until(id, |view| view.progress.bytes_verified > CUT_AT_BYTES)?;
    let watch = Watch { trial, id, before: paths(trial, id)? };
    let card = CutCard::cut(commands)?;
    let on_others = watch.while_cut()?;
    card.heal()?;
    let view = hurried(trial, id)?;
    // Both ends read all again.
    let again = trial.request_from(commands.from.clone(), CUT_CARD, by_digest());
    let again = trial.submit(&again)?.id;
    let again = trial.until(again, |view| view.state == TransferState::Done)?;
    if again.progress.files > 0 {
        let files = again.progress.files;
        return broken(format!("{files} files differ from the source after the cut"));
    }
    ended(&view, on_others)
}

/// A card: a peer, and an interface or address of it.
type Card = (Name, String);

/// A path of a transfer, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Path {
    card: Card,
    /// Both addresses.
    ends: (String, SocketAddr),
    is_given_up: bool,
}

impl Path {
    fn of(peer: &Name, path: TaskPath) -> Self {
        let card = path.from.split_once('%').map_or(&path.from[..], |(_, interface)| interface);
        Self {
            card: (peer.clone(), card.to_owned()),
            is_given_up: matches!(path.state.as_str(), "dead" | "crawling"),
            ends: (path.from, path.to),
        }
    }

    fn is(&self, other: &Self) -> bool {
        (&self.card, &self.ends) == (&other.card, &other.ends)
    }
}

fn paths(trial: &Trial<'_>, id: TransferId) -> anyhow::Result<Vec<Path>> {
    let uri = SHOW_TRANSFER_PATHS.uri(&[&id]).query("owner", &trial.site);
    let shares = trial.client.get::<TransferPaths>(&uri)?.shares;
    let of_share = |share: TaskLoad| {
        let TaskLoad { peer, paths, .. } = share;
        paths.into_iter().map(move |path| Path::of(&peer, path))
    };
    Ok(shares.into_iter().flat_map(of_share).collect())
}

/// Returns the cards of paths that were given up since `before`.
fn cut_cards(before: &[Path], now: &[Path]) -> Vec<Card> {
    let was_given_up = |path: &Path| before.iter().any(|old| old.is(path) && old.is_given_up);
    let cut = now.iter().filter(|path| path.is_given_up && !was_given_up(path));
    cut.map(|path| path.card.clone()).collect()
}

/// Returns whether a path over another card than these has not been given up. A further path of
/// the cut card may not have been tried yet.
fn has_others(paths: &[Path], cut: &[Card]) -> bool {
    paths.iter().any(|path| !path.is_given_up && !cut.contains(&path.card))
}

/// A transfer over a card that is cut.
struct Watch<'a> {
    trial: &'a Trial<'a>,
    id: TransferId,
    /// The paths before the cut.
    before: Vec<Path>,
}

impl Watch<'_> {
    /// Looks on while the card is cut. Returns the bytes that have come over other cards, or none
    /// where there is no other.
    fn while_cut(&self) -> anyhow::Result<Option<u64>> {
        let mut cards = self.before.iter().filter(|path| !path.is_given_up).map(|path| &path.card);
        let first = cards.next();
        if cards.all(|card| Some(card) == first) {
            self.nothing_comes()?;
            return Ok(None);
        }
        let began = Instant::now();
        let others = loop {
            match paths(self.trial, self.id) {
                Ok(now) => {
                    let cut = cut_cards(&self.before, &now);
                    if !cut.is_empty() {
                        break has_others(&now, &cut);
                    }
                }
                Err(error) if exit::code_of(&error) == ExitCode::Temporary => {}
                Err(error) => return Err(error),
            }
            if self.look()?.state == TransferState::Done || began.elapsed() > GIVEN_UP_MAX {
                return unknown(
                    "no path of the transfer was given up: --cut-card has cut none that carried",
                );
            }
            thread::sleep(LOOK);
        };
        if !others {
            self.nothing_comes()?;
            return Ok(None);
        }
        let before = self.look()?.progress.bytes_verified;
        let is_enough =
            |view: &TransferView| view.progress.bytes_verified >= before + ON_OTHERS_BYTES;
        let is_over = |view: &TransferView| view.state == TransferState::Done;
        let view = self.trial.until(self.id, |view| is_enough(view) || is_over(view))?;
        if !is_enough(&view) {
            return unknown("the transfer ended before enough had come over other cards");
        }
        Ok(Some(view.progress.bytes_verified - before))
    }

    /// Looks at the transfer, which has not failed.
    fn look(&self) -> anyhow::Result<TransferView> {
        let is_sound =
            |view: &TransferView| !view.state.is_ended() || view.state == TransferState::Done;
        self.trial.until(self.id, is_sound)
    }

    /// Waits some seconds in which bytes under way may come, and some in which none may.
    fn nothing_comes(&self) -> anyhow::Result<()> {
        let mut bytes = [0; 2];
        for bytes in &mut bytes {
            let began = Instant::now();
            while began.elapsed() < CUT {
                *bytes = self.look()?.progress.bytes_verified;
                thread::sleep(LOOK);
            }
        }
        match bytes[1] > bytes[0] {
            true => unknown("bytes have come all the while: --cut-card has not cut the only card"),
            false => Ok(()),
        }
    }
}

fn ended(view: &TransferView, on_others: Option<u64>) -> anyhow::Result<Outcome> {
    let again = format_bytes(view.progress.bytes_resent);
    let text = match on_others {
        Some(bytes) => format!("{} came over other cards meanwhile, ", format_bytes(bytes)),
        None => "there was no other card, and nothing came meanwhile, ".to_owned(),
    };
    let text = format!("{text}{again} were sent again");
    if view.progress.bytes_resent > AGAIN_BYTES_MAX { broken(text) } else { passed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(peer: &str, from: &str, state: &str) -> Path {
        let path = TaskPath {
            from: from.to_owned(),
            to: "10.51.1.1:7444".parse().unwrap(),
            to_peer: "a1".parse().unwrap(),
            network: String::new(),
            state: state.to_owned(),
            since: 0,
            why: String::new(),
            lanes: 1,
            rate_bits_per_s: 0.0,
            rtt_us: None,
        };
        Path::of(&peer.parse().unwrap(), path)
    }

    /// Promise: only a path that is given up after the cut shows a cut card: pairs of addresses
    /// that never reach each other are dead at all times. Another address of that card is no other
    /// card, and a card of the same name at another peer is one.
    #[test]
    fn cut_cards_and_others_are_known() {
        let before = [
            path("b1", "10.51.2.1%net1", "carrying"),
            path("b1", "fd51::2:1%net1", "standby"),
            path("b1", "10.53.2.1%net3", "dead"),
        ];
        assert!(cut_cards(&before, &before).is_empty());
        let mut now = before.clone();
        now[0] = path("b1", "10.51.2.1%net1", "dead");
        let cut = cut_cards(&before, &now);
        assert_eq!(cut, [("b1".parse().unwrap(), "net1".to_owned())]);
        assert!(!has_others(&now, &cut));
        for other in [("b1", "10.52.2.1%net2"), ("b2", "10.51.2.2%net1")] {
            let more = [&now[..], &[path(other.0, other.1, "untried")]].concat();
            assert!(has_others(&more, &cut), "{other:?}");
        }
        let more = [&now[..], &[path("b1", "10.52.2.1%net2", "crawling")]].concat();
        assert!(!has_others(&more, &cut));
    }
}
