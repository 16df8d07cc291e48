//! The thread that takes a sample each second, and the samples that are not written yet.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_proto::id::TransferId;
use penstock_sys::{EnergyMeter, now_seconds, wall_clock_now};
use tokio::sync::watch;

use super::archive::{Archive, ArchiveError, Batch, Subject};
use super::core_times::CoreTimes;
use super::host::{HostCounters, HostFigures};
use super::sample::{
    DRAM_WATTS, FILES, LANES, PACKAGE_WATTS, PEERS, RATE, Sample, TOTAL_LANES, TOTAL_RATE,
    TRANSFERS, Values,
};
use super::store_devices::StoreDevices;
use super::work::{WholeCounters, Work, WorkCounters, WorkLook};

/// Nanoseconds after the begin of a second at which samples are taken: far from the begin of the
/// next, so that one that is a little late is of the same second.
const SAMPLE_AT: u32 = 500_000_000;
const SECOND: u32 = 1_000_000_000;
/// Samples of the host that are written at once.
const BATCH: usize = 10;
/// Interval at which stores are looked at, and old transfers removed, in samples.
const LOOK_SAMPLES: u64 = 60;
/// Seconds of the processors that are kept in memory.
const CORES_SECONDS: usize = 600;

/// Takes samples, and keeps them.
pub(crate) struct Recorder {
    pub(super) archive: Archive,
    devices: StoreDevices,
    state: Mutex<State>,
}

/// The figures that are not in the archive yet.
struct State {
    host: HostCounters,
    looked: Option<Instant>,
    samples: Vec<Sample>,
    /// Busy times of the processors in the last seconds.
    cores: VecDeque<Vec<(u32, f64)>>,
    transfers: BTreeMap<TransferId, Tracked>,
    /// True while the archive fails, so that the log has it once.
    is_failing: bool,
}

/// A transfer for which this peer works.
struct Tracked {
    before: WorkCounters,
    samples: Vec<Sample>,
    shared_seconds: u64,
    cores: CoreTimes,
    cipher: String,
    has_ended: bool,
}

impl Recorder {
    /// Opens the archive of a site directory. Counters of energy are those below `powercap`.
    ///
    /// # Errors
    /// The archive cannot be opened.
    pub(crate) fn open(directory: &Path, powercap: &Path) -> Result<Arc<Self>, ArchiveError> {
        let devices = StoreDevices::default();
        let host = HostCounters::new(EnergyMeter::new(powercap), devices.clone());
        let state = State {
            host,
            looked: None,
            samples: Vec::new(),
            cores: VecDeque::new(),
            transfers: BTreeMap::new(),
            is_failing: false,
        };
        Ok(Arc::new(Self { archive: Archive::open(directory)?, devices, state: Mutex::new(state) }))
    }

    /// Takes samples on a thread of its own until `stopped` is true. `stores` returns the
    /// directories of the stores.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        self: &Arc<Self>,
        work: Work,
        stores: impl Fn() -> Vec<PathBuf> + Send + 'static,
        stopped: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let its = Arc::clone(self);
        let run = move || {
            let mut samples = 0_u64;
            while !*stopped.borrow() {
                if samples.is_multiple_of(LOOK_SAMPLES) {
                    its.devices.look(stores());
                    its.expire();
                }
                let looked = work.look(&its.led());
                if its.take(looked, Instant::now(), now_seconds()) {
                    its.flush();
                }
                samples += 1;
                std::thread::sleep(until_next(wall_clock_now().nanoseconds));
            }
        };
        std::thread::Builder::new().name("statistics".to_owned()).spawn(run).map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sample of the host and of these transfers. Returns whether enough has come to be
    /// written.
    fn take(&self, look: WorkLook, at: Instant, now: u64) -> bool {
        let known = self.lock().transfers.keys().copied().collect::<Vec<_>>();
        let news = look.working.keys().filter(|id| !known.contains(id));
        // A transfer that runs again has its processors of before.
        let mut earlier: BTreeMap<_, _> =
            news.map(|id| (*id, self.earlier_cores(Subject::Transfer(*id)))).collect();
        let mut state = self.lock();
        let seconds = state.looked.map(|looked| at.duration_since(looked).as_secs_f64());
        let figures = state.host.look(seconds.unwrap_or(1.0).max(0.001));
        state.looked = Some(at);
        state.take(look, &mut earlier, (seconds, now), &figures)
    }

    /// Returns the transfers that this peer led at the last look.
    fn led(&self) -> Vec<TransferId> {
        let state = self.lock();
        let led = state.transfers.iter().filter(|(_, tracked)| tracked.before.whole.is_some());
        led.map(|(id, _)| *id).collect()
    }

    fn earlier_cores(&self, subject: Subject) -> CoreTimes {
        let found = self.archive.totals(subject);
        found.ok().flatten().map(|(cores, _)| cores).unwrap_or_default()
    }

    /// Writes the samples that are not written yet. Blocks on the disk of the site directory.
    pub(crate) fn flush(&self) {
        let batches = self.lock().drain();
        if batches.is_empty() {
            return;
        }
        let written = self.archive.record(&batches);
        let mut state = self.lock();
        if let Err(error) = written {
            if !std::mem::replace(&mut state.is_failing, true) {
                tracing::warn!(%error, "statistics are not kept");
            }
        } else {
            state.is_failing = false;
        }
    }

    fn expire(&self) {
        if let Err(error) = self.archive.expire(now_seconds()) {
            tracing::warn!(%error, "old statistics stay");
        }
    }

    /// Returns the reason why energy cannot be measured here; `None` if it can.
    pub(super) fn no_energy(&self) -> Option<String> {
        self.lock().host.no_energy.clone()
    }

    /// Returns the busy times of the processors over the last ten minutes.
    pub(super) fn last_cores(&self) -> CoreTimes {
        let mut cores = CoreTimes::default();
        for (core, percent) in self.lock().cores.iter().flatten() {
            cores.add(*core, *percent);
        }
        cores
    }
}

/// Returns the time until the next sample, so many nanoseconds after the begin of a second. A look
/// that was late does not make the later ones late.
fn until_next(nanoseconds: u32) -> Duration {
    let late = (nanoseconds + SECOND - SAMPLE_AT) % SECOND;
    Duration::from_nanos((SECOND - late).into())
}

impl State {
    /// Takes a sample: `seconds` after the last look, `None` at the first one.
    fn take(
        &mut self,
        look: WorkLook,
        earlier: &mut BTreeMap<TransferId, CoreTimes>,
        (seconds, now): (Option<f64>, u64),
        figures: &HostFigures,
    ) -> bool {
        let WorkLook { working: work, ended } = look;
        let is_shared = work.values().filter(|counters| counters.moves).count() > 1;
        let (mut rate, mut lanes) = (0.0, 0);
        let span = seconds.map(|seconds| Span::of(seconds, now));
        for (id, tracked) in &mut self.transfers {
            tracked.has_ended = !work.contains_key(id);
            if let Some((whole, span)) = ended.get(id).filter(|_| tracked.has_ended).zip(span) {
                rate += tracked.take_last(*whole, span, figures, is_shared);
            }
        }
        for (id, counters) in work {
            let tracked = self.transfers.entry(id).or_insert_with(|| {
                let cores = earlier.remove(&id).unwrap_or_default();
                Tracked::new(&counters, seconds.is_some(), cores)
            });
            lanes += counters.lanes;
            let Some(span) = span else { continue };
            rate += tracked.take(counters, span, figures, is_shared);
        }
        let Some(span) = span else { return false };
        let running = self.transfers.values().filter(|tracked| !tracked.has_ended).count();
        let own = [(RATE, rate), (LANES, lanes as f64), (TRANSFERS, running as f64)];
        let mut values: Values =
            own.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect();
        values.extend(figures.whole.iter().chain(&figures.parts).cloned());
        self.samples.push(span.sample(values));
        self.cores.push_back(figures.cores.clone());
        if self.cores.len() > CORES_SECONDS {
            self.cores.pop_front();
        }
        self.samples.len() >= BATCH || self.transfers.values().any(|tracked| tracked.has_ended)
    }

    /// Takes the batches to be written; removes transfers that have ended.
    fn drain(&mut self) -> Vec<Batch> {
        let mut batches = Vec::new();
        for (id, tracked) in &mut self.transfers {
            batches.push(Batch {
                subject: Subject::Transfer(*id),
                samples: std::mem::take(&mut tracked.samples),
                cores: tracked.cores.clone(),
                cipher: tracked.cipher.clone(),
                shared_seconds: std::mem::take(&mut tracked.shared_seconds),
            });
        }
        self.transfers.retain(|_, tracked| !tracked.has_ended);
        batches.push(Batch {
            subject: Subject::Host,
            samples: std::mem::take(&mut self.samples),
            cores: CoreTimes::default(),
            cipher: String::new(),
            shared_seconds: 0,
        });
        batches.retain(|batch| !batch.samples.is_empty());
        batches
    }
}

/// The time between two looks.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Its length, in seconds.
    seconds: f64,
    /// Its begin, in seconds since 1970.
    at: u64,
    /// Its length in whole seconds, at least one.
    whole: u32,
}

impl Span {
    /// Returns the span of so many seconds until `now`.
    fn of(seconds: f64, now: u64) -> Self {
        let whole = (seconds.round() as u32).max(1);
        Self { seconds: seconds.max(0.001), at: now.saturating_sub(whole.into()), whole }
    }

    fn sample(self, values: Values) -> Sample {
        Sample { at: self.at, seconds: self.whole, exact_seconds: self.seconds, values }
    }

    /// Returns the growth of a counter in a second; a counter that went back has restarted.
    fn rate(self, before: u64, now: u64) -> f64 {
        now.checked_sub(before).unwrap_or(now) as f64 / self.seconds
    }
}

impl Tracked {
    /// Starts the record of a transfer. A transfer that `began` since the last look has counted
    /// from zero.
    fn new(counters: &WorkCounters, began: bool, cores: CoreTimes) -> Self {
        let mut before = counters.clone();
        if began {
            (before.sent_bytes, before.verified_bytes) = (0, 0);
            if let Some(whole) = &mut before.whole {
                whole.bytes = 0;
                whole.files = if whole.is_resumed { whole.files } else { 0 };
            }
        }
        let (samples, cipher, has_ended) = (Vec::new(), String::new(), false);
        Self { before, samples, shared_seconds: 0, cores, cipher, has_ended }
    }

    /// Takes a sample of the time between the last look and the end, if it has any bytes; returns
    /// the rate of this peer, in bits per second.
    fn take_last(
        &mut self,
        whole: WholeCounters,
        span: Span,
        figures: &HostFigures,
        is_shared: bool,
    ) -> f64 {
        let Some(before) = self.before.whole else { return 0.0 };
        let bytes = whole.bytes.saturating_sub(before.bytes);
        if bytes == 0 && whole.files <= before.files {
            return 0.0;
        }
        let (bytes_now, files) = (before.bytes + bytes, whole.files.max(before.files));
        let whole = WholeCounters { bytes: bytes_now, files, lanes: 0, ..whole };
        let mut now = WorkCounters { lanes: 0, whole: Some(whole), ..self.before.clone() };
        if whole.is_alone && now.moves {
            now.verified_bytes += bytes;
        }
        self.take(now, span, figures, is_shared)
    }

    /// Takes a sample; returns the rate of this peer, in bits per second.
    fn take(
        &mut self,
        now: WorkCounters,
        span: Span,
        figures: &HostFigures,
        is_shared: bool,
    ) -> f64 {
        let sent = span.rate(self.before.sent_bytes, now.sent_bytes);
        let verified = span.rate(self.before.verified_bytes, now.verified_bytes);
        let rate = 8.0 * sent.max(verified);
        let mut values: Values = Vec::new();
        let mut add = |name: &'static str, value: f64| values.push((Cow::Borrowed(name), value));
        if now.moves || self.before.moves {
            add(RATE, rate);
            add(LANES, now.lanes as f64);
        }
        if let Some(whole) = now.whole {
            let before = self.before.whole.unwrap_or(whole);
            add(TOTAL_RATE, 8.0 * span.rate(before.bytes, whole.bytes));
            add(FILES, span.rate(before.files, whole.files));
            add(TOTAL_LANES, whole.lanes.into());
            add(PEERS, whole.peers.into());
        }
        // The energy of a peer that moves nothing for a transfer is not that of the transfer.
        let has_energy = now.moves || self.before.moves;
        let is_its = |name: &str| has_energy || (name != PACKAGE_WATTS && name != DRAM_WATTS);
        values.extend(figures.whole.iter().filter(|(name, _)| is_its(name)).cloned());
        self.samples.push(span.sample(values));
        self.shared_seconds += if is_shared { span.whole.into() } else { 0 };
        figures.cores.iter().for_each(|(core, percent)| self.cores.add(*core, *percent));
        if let Some(cipher) = now.cipher {
            cipher.clone_into(&mut self.cipher);
        }
        self.before = now;
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TransferId = TransferId([7; 16]);

    fn counters(bytes: u64, files: u64) -> WorkCounters {
        WorkCounters {
            verified_bytes: bytes,
            lanes: 2,
            cipher: Some("AES-128-GCM"),
            moves: true,
            whole: Some(whole(bytes, files)),
            ..WorkCounters::default()
        }
    }

    fn whole(bytes: u64, files: u64) -> WholeCounters {
        let (is_resumed, is_alone) = (false, true);
        WholeCounters { bytes, files, lanes: 2, peers: 1, is_resumed, is_alone }
    }

    fn total(recorder: &Recorder, name: &str) -> f64 {
        let series = recorder.archive.series(Subject::Transfer(ID), 0, u64::MAX).unwrap();
        let column = series.columns.iter().position(|column| column == name).unwrap();
        let cells = series.points.iter().filter_map(|(_, point)| point.cells[column]);
        cells.map(|cell| f64::from(cell.mean) * f64::from(cell.seconds)).sum()
    }

    /// Promise: the growth of a transfer's counters is in its series. That holds from the second in
    /// which it began to its end between two looks, over a stop of the task, and over a late look.
    #[test]
    fn all_that_counters_grow_by_is_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::open(directory.path(), Path::new("/nowhere")).unwrap();
        let begin = Instant::now();
        let look = |second: u64, counters: Option<WorkCounters>| {
            let led = recorder.led();
            let working: BTreeMap<_, _> = counters.map(|it| (ID, it)).into_iter().collect();
            let ended = led.into_iter().filter(|id| !working.contains_key(id));
            let ended = ended.map(|id| (id, whole(13_000, 43))).collect();
            recorder.take(
                WorkLook { working, ended },
                begin + Duration::from_secs(second),
                1_800_000_000 + second,
            )
        };
        assert!(!look(0, None));
        assert!(!look(1, Some(counters(1000, 3))));
        assert!(!look(2, Some(counters(5000, 10))));
        // A look that was late by two seconds; then another task, which begins at zero.
        assert!(!look(5, Some(counters(11_000, 40))));
        assert!(!look(6, Some(WorkCounters { verified_bytes: 500, ..counters(12_000, 41) })));
        assert!(look(7, None));
        recorder.flush();
        assert_eq!(total(&recorder, RATE).round(), 8.0 * 12_500.0);
        assert_eq!(total(&recorder, TOTAL_RATE).round(), 8.0 * 13_000.0);
        assert_eq!(total(&recorder, FILES).round(), 43.0);
        let (cores, totals) = recorder.archive.totals(Subject::Transfer(ID)).unwrap().unwrap();
        assert_eq!((totals.seconds, totals.cipher.as_str()), (7, "AES-128-GCM"));
        assert_eq!((totals.package_joules, totals.shared_seconds), (None, 0));
        assert!(recorder.no_energy().unwrap().contains("/nowhere"));
        // The transfer runs again, with its earlier processors.
        look(8, Some(counters(10, 0)));
        let kept = recorder.lock().transfers[&ID].cores.clone();
        assert!(kept.spreads().len() >= cores.spreads().len());
    }

    /// Promise: the energy of a host while a peer works for a transfer is that of its counters, for
    /// each TiB of payload under the cipher of its lanes. Seconds with other transfers are
    /// reported.
    #[test]
    fn energy_is_that_of_the_counters() {
        let directory = tempfile::tempdir().unwrap();
        let package = directory.path().join("powercap/intel-rapl:0");
        std::fs::create_dir_all(&package).unwrap();
        let write = |file: &str, text: &str| std::fs::write(package.join(file), text).unwrap();
        write("name", "package-0\n");
        write("max_energy_range_uj", "262143328850\n");
        write("energy_uj", "1000000\n");
        let powercap = directory.path().join("powercap");
        let recorder = Recorder::open(directory.path(), &powercap).unwrap();
        let begin = Instant::now();
        let look = |second: u64, micro_joules: &str, others: u8| {
            write("energy_uj", micro_joules);
            let other = (1..=others).map(|other| (TransferId([other; 16]), counters(0, 0)));
            let bytes = second * (1 << 30);
            let working = other.chain([(ID, counters(bytes, 0))]).collect();
            let look = WorkLook { working, ..WorkLook::default() };
            recorder.take(look, begin + Duration::from_secs(second), 1_800_000_000 + second);
        };
        look(0, "5000000\n", 0);
        look(1, "105000000\n", 0);
        look(2, "305000000\n", 1);
        let own = "h1".parse().unwrap();
        let energy = recorder.summary(&own, ID).unwrap().unwrap().energy;
        assert_eq!((energy.is_available, energy.why.as_str()), (true, ""));
        let [aes] = &energy.ciphers[..] else { panic!("{energy:?}") };
        assert_eq!((aes.cipher.as_str(), aes.bytes), ("AES-128-GCM", 2 << 30));
        assert_eq!((aes.seconds, aes.shared_seconds), (2, 1));
        assert!((aes.package_joules.unwrap() - 300.0).abs() < 1e-6, "{aes:?}");
        // 300 J for 2 GiB are 150 J for each of the 1,024 GiB of a TiB.
        let per_tib = aes.package_joules_per_tib.unwrap();
        assert!((per_tib - 153_600.0).abs() < 1e-3, "{aes:?}");
        assert_eq!(aes.dram_joules, None);
    }

    /// Promise: a transfer that a peer leads, and for which it moves nothing, has none of its
    /// energy.
    #[test]
    fn energy_is_of_transfers_that_the_peer_moves() {
        let span = Span::of(1.0, 1_800_000_000);
        let watts = [PACKAGE_WATTS, DRAM_WATTS].map(|name| (Cow::Borrowed(name), 100.0));
        let figures = HostFigures { whole: watts.to_vec(), ..HostFigures::default() };
        let joules = |moves: bool| {
            let now = WorkCounters { moves, ..counters(0, 0) };
            let mut tracked = Tracked::new(&now, false, CoreTimes::default());
            tracked.take(now, span, &figures, false);
            [PACKAGE_WATTS, DRAM_WATTS].map(|name| tracked.samples[0].total(name))
        };
        assert_eq!(joules(true), [Some(100.0); 2]);
        assert_eq!(joules(false), [None; 2]);
    }

    /// Promise: samples are taken in the middle of seconds, also after a look that was late.
    #[test]
    fn samples_are_in_the_middle_of_seconds() {
        for now in [0, 1, 499_999_999, 500_000_000, 500_000_001, 999_999_999] {
            let next = until_next(now);
            let at = (u64::from(now) + next.as_nanos() as u64) % u64::from(SECOND);
            assert_eq!(at, u64::from(SAMPLE_AT));
            assert!(next > Duration::ZERO && next <= Duration::from_secs(1));
        }
    }
}
