//! The transfers of a measurement: a warm-up of each route, then repeats by turns.

use std::time::Duration;

use penstock_api::endpoints::{GET_SERIES, SHOW_STATUS};
use penstock_api::rest::StatusView;
use penstock_api::statistics::TransferSeries;
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::TransferOptions;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::Name;
use penstock_proto::units::{MIB, counted, format_bytes};

use super::arguments::NetworkArgs;
use super::cards::{IN, OUT, carried};
use super::iperf3::Iperf3Server;
use super::memory_files::{MemoryFiles, Portion};
use super::networks::reachable_networks;
use super::result::{NetworkResult, NetworkRun};
use super::ways::{Pair, Way, ways};
use crate::client::Client;
use crate::commands::bench::interruption::Interruption;
use crate::commands::bench::mover::Mover;
use crate::forecast::network_time::{LABEL, WARM_UP};
use crate::forecast::seconds_of;

/// Bytes of the first transfer that looks for the bytes of a time.
const FIRST_BYTES: u64 = 4 * MIB;
/// Factor from one such transfer to the next one.
const GROWTH: u64 = 8;
/// Part of the time from which on such a transfer tells the rate.
const ENOUGH: f64 = 0.25;
/// Time without progress after which a transfer is cancelled.
const STALL: Duration = Duration::from_secs(300);
/// Time of iperf3 where bytes are given, in seconds.
const IPERF3_SECONDS: u32 = 10;

/// A way, over all networks or a single one.
struct Route {
    way: Way,
    network: Option<Name>,
}

impl Route {
    fn words(&self) -> String {
        let Way { source, target, .. } = &self.way;
        match &self.network {
            Some(network) => format!("{source} to {target} over {network}"),
            None => format!("{source} to {target}"),
        }
    }
}

/// Runs the transfers.
pub(super) struct Course<'a> {
    pub(super) client: &'a Client,
    pub(super) interruption: &'a Interruption,
    pub(super) args: &'a NetworkArgs,
}

impl Course<'_> {
    /// Measures all ways. Blocks until the last transfer has ended. Returns the figures of the
    /// repeats, and the error that has ended them early.
    ///
    /// # Errors
    /// As [`super::run`], before the first repeat.
    pub(super) fn run(&self) -> anyhow::Result<(NetworkResult, Option<anyhow::Error>)> {
        let pair = Pair::ask(self.client, self.args.site.as_ref())?;
        let routes = self.routes(&pair)?;
        let status: StatusView = self.client.get(&SHOW_STATUS.uri(&[]))?;
        if status.running > 0 {
            let running = counted(status.running.into(), "transfer");
            exit::warn(&format!("{running} of this site run meanwhile, and slow this down"));
        }
        let id = format!("{:08x}", rand::random::<u32>());
        let mover = Mover {
            client: self.client,
            interruption: self.interruption,
            label: format!("{LABEL} {id}"),
            stall: STALL,
        };
        let began = Timestamp::of_seconds(penstock_sys::now_seconds());
        if self.args.iperf3.is_some() {
            Iperf3Server::check()?;
        }
        let portions: Vec<Portion> =
            routes.iter().map(|it| self.warm_up(&mover, it)).collect::<anyhow::Result<_>>()?;
        let mut result = NetworkResult {
            id,
            site: pair.own,
            other: pair.other,
            encryption: self.args.encryption.into(),
            began,
            runs: Vec::new(),
            iperf3: Vec::new(),
        };
        for repeat in 1..=self.args.repeats {
            exit::warn(&format!("repeat {repeat} of {}", self.args.repeats));
            if let Err(error) = self.repeat(repeat, &mover, (&routes, &portions), &mut result) {
                let times = self.args.repeats;
                let error = error.context(format!("repeat {repeat} of {times} is not complete"));
                return Ok((result, Some(error)));
            }
        }
        Ok((result, None))
    }

    /// Returns all ways over all networks together, and each over each network alone if that is
    /// wanted.
    fn routes(&self, pair: &Pair) -> anyhow::Result<Vec<Route>> {
        let ways = ways(self.client, pair)?;
        let mut networks = vec![None];
        if self.args.each_network {
            networks.extend(reachable_networks(self.client, pair)?.into_iter().map(Some));
        }
        let over = |way: Way| networks.iter().map(move |it| (way.clone(), it.clone()));
        let all = ways.into_iter().flat_map(over);
        Ok(all.map(|(way, network)| Route { way, network }).collect())
    }

    /// Measures all routes once, and iperf3 beside them.
    fn repeat(
        &self,
        repeat: u32,
        mover: &Mover<'_>,
        (routes, portions): (&[Route], &[Portion]),
        result: &mut NetworkResult,
    ) -> anyhow::Result<()> {
        for (route, portion) in routes.iter().zip(portions) {
            let run = self.measure(mover, route, portion, &route.words())?;
            result.runs.push(NetworkRun { repeat, ..run });
        }
        if let Some(server) = &self.args.iperf3 {
            let bytes = self.args.bytes;
            let seconds = bytes.map_or(self.args.seconds, |_| IPERF3_SECONDS);
            for is_outward in [true, false] {
                self.interruption.check()?;
                let run = server.measure(seconds, is_outward);
                // Ctrl-C ends iperf3 too, which is no failure of it.
                self.interruption.check()?;
                result.iperf3.push(run?);
            }
        }
        Ok(())
    }

    /// Finds the files to move along a route, by transfers that count for nothing.
    fn warm_up(&self, mover: &Mover<'_>, route: &Route) -> anyhow::Result<Portion> {
        let way = &route.way;
        let bytes_max = self.args.bytes.unwrap_or(u64::MAX);
        let files = MemoryFiles::list(self.client, way, bytes_max)?;
        let what = format!("{WARM_UP} {}", route.words());
        if let Some(bytes) = self.args.bytes {
            let portion = files.portion(bytes);
            if portion.is_all() && portion.extent.bytes < bytes {
                let (has, store) = (format_bytes(portion.extent.bytes), &way.source.store);
                exit::warn(&format!("store `{store}` of {} has {has} only", way.source.site));
            }
            self.measure(mover, route, &portion, &what)?;
            return Ok(portion);
        }
        let wanted = f64::from(self.args.seconds);
        let mut bytes = FIRST_BYTES;
        loop {
            let portion = files.portion(bytes);
            let run = self.measure(mover, route, &portion, &what)?;
            if portion.is_whole || run.seconds >= wanted {
                return Ok(portion);
            }
            if run.seconds >= wanted * ENOUGH {
                // A cast of a float saturates.
                return Ok(files.portion((run.bytes as f64 / run.seconds * wanted) as u64));
            }
            bytes = bytes.saturating_mul(GROWTH);
        }
    }

    /// Moves files along a route, and returns the figures of that.
    fn measure(
        &self,
        mover: &Mover<'_>,
        Route { way, network }: &Route,
        portion: &Portion,
        what: &str,
    ) -> anyhow::Result<NetworkRun> {
        self.interruption.check()?;
        let options = TransferOptions {
            encryption: self.args.encryption.into(),
            files_from: portion.paths.clone(),
            networks: network.iter().cloned().collect(),
            ..TransferOptions::default()
        };
        let moved = mover.run(what, way.source.clone(), way.target.clone(), options)?;
        if let Some(error) = moved.error() {
            return Err(error);
        }
        let (progress, seconds) = (&moved.view.progress, seconds_of(&moved.view));
        if progress.bytes == 0 || seconds <= 0.0 {
            let message = format!("transfer {} has moved nothing", moved.view.id.short());
            return Err(Failure::new(ExitCode::SomeFailed, message).into());
        }
        let columns = format!("{IN},{OUT}");
        let uri = GET_SERIES.uri(&[&moved.view.id]).query("columns", columns);
        // A short transfer has no series. Shares of cards are then unknown.
        let series: Option<TransferSeries> = self.client.get(&uri).ok();
        Ok(NetworkRun {
            transfer: moved.view.id,
            source: way.source.clone(),
            target: way.target.clone(),
            is_outward: way.is_outward,
            network: network.clone(),
            repeat: 0,
            files: progress.files,
            bytes: progress.bytes,
            seconds,
            cards: series.map(|series| carried(&series, way.is_outward)).unwrap_or_default(),
        })
    }
}
