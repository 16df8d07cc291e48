//! The part of the host: the process, its runtimes and loops, and the network cards.

use std::fs;
use std::sync::Arc;

use penstock_sys::{LOOPBACK, now_seconds};
use tokio::runtime::Handle;

use super::heartbeat::Heartbeats;
use super::requests::BLOCKING;
use super::table::{
    BLOCKING as BLOCKING_FAMILY, CPU, CPUS, LOOP_SILENCE, LOOP_SILENCE_MAX, MAX_FDS, NIC_BYTES,
    OPEN_FDS, RESIDENT, RUNTIME_BUSY, RUNTIME_QUEUE, RUNTIME_TASKS, RUNTIME_WORKERS, START_TIME,
    THREADS, VIRTUAL,
};
use super::{Part, Samples};

/// Network cards that are shown; containers may have very many.
const NICS_MAX: usize = 64;

/// A runtime by its name.
pub(crate) type NamedRuntime = (&'static str, Handle);

/// Returns the parts of the process and its loops. A stuck loop delays only the part of the loops.
pub(crate) fn parts(runtimes: Vec<NamedRuntime>, heartbeats: Arc<Heartbeats>) -> Vec<Part> {
    let began = now_seconds();
    let process = Part::new("process", move |samples| {
        samples.count(&START_TIME, &[], began);
        add_process(samples);
        add_nics(samples);
        runtimes.iter().for_each(|runtime| add_runtime(samples, runtime));
        let (waiting, working) = BLOCKING.counts();
        samples.count(&BLOCKING_FAMILY, &["waiting"], waiting);
        samples.count(&BLOCKING_FAMILY, &["working"], working);
    });
    let loops = Part::new("loops", move |samples| {
        for (name, silence, patience) in heartbeats.silences() {
            samples.add(&LOOP_SILENCE, &[name], silence.as_secs_f64());
            samples.add(&LOOP_SILENCE_MAX, &[name], patience.as_secs_f64());
        }
    });
    vec![process, loops]
}

fn add_process(samples: &mut Samples) {
    samples.add(&CPU, &[], penstock_sys::cpu_seconds());
    samples.count(&CPUS, &[], penstock_sys::available_cpus() as u64);
    // Pages, proc_pid_statm(5): virtual, resident.
    let page = rustix::param::page_size() as u64;
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').map_while(|pages| pages.parse::<u64>().ok());
    for (family, pages) in [&VIRTUAL, &RESIDENT].into_iter().zip(pages) {
        samples.count(family, &[], pages * page);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of the descriptors is that of the directory itself.
        samples.count(&OPEN_FDS, &[], (open.count() as u64).saturating_sub(1));
    }
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    samples.add(&MAX_FDS, &[], most.map_or(f64::INFINITY, |most| most as f64));
    if let Ok(tasks) = fs::read_dir("/proc/self/task") {
        samples.count(&THREADS, &[], tasks.count() as u64);
    }
}

fn add_nics(samples: &mut Samples) {
    let mut cards = penstock_sys::card_counters().unwrap_or_default();
    cards.sort_by(|a, b| a.device.cmp(&b.device));
    for card in cards.iter().filter(|card| card.device != LOOPBACK).take(NICS_MAX) {
        samples.count(&NIC_BYTES, &[&card.device, "in"], card.received_bytes);
        samples.count(&NIC_BYTES, &[&card.device, "out"], card.sent_bytes);
    }
}

fn add_runtime(samples: &mut Samples, (name, runtime): &NamedRuntime) {
    let figures = runtime.metrics();
    let workers = figures.num_workers();
    samples.count(&RUNTIME_WORKERS, &[name], workers as u64);
    samples.count(&RUNTIME_TASKS, &[name], figures.num_alive_tasks() as u64);
    samples.count(&RUNTIME_QUEUE, &[name], figures.global_queue_depth() as u64);
    let busy = (0..workers).map(|worker| figures.worker_total_busy_duration(worker).as_secs_f64());
    samples.add(&RUNTIME_BUSY, &[name], busy.sum());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the figures of a process are there, and those of each of its runtimes.
    #[tokio::test]
    async fn a_process_has_figures() {
        let mut samples = Samples::default();
        add_process(&mut samples);
        add_runtime(&mut samples, &("test", Handle::current()));
        let text = format!("{samples:?}");
        let families =
            [&CPU, &CPUS, &VIRTUAL, &RESIDENT, &OPEN_FDS, &MAX_FDS, &THREADS, &RUNTIME_WORKERS];
        for family in families {
            assert!(text.contains(family.name), "{}: {text}", family.name);
        }
    }
}
