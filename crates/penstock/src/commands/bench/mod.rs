//! `penstock bench`: what the stores of this site can do, measured as transfers use them; and what
//! transfers can do.

mod benchmark;
#[cfg(test)]
mod examples;
mod file_sizes;
mod interruption;
mod layers;
mod mover;
mod network;
mod sweep;
mod table;
mod thread_numbers;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use penstock_api::benchmark::{
    Benchmark, BenchmarkCleaned, BenchmarkCleanup, BenchmarkKind, BenchmarkList, BenchmarkRequest,
    BenchmarkState,
};
use penstock_api::endpoints::{
    CLEAN_BENCHMARKS, END_BENCHMARK, LIST_BENCHMARKS, LIST_STORES, SHOW_STORE, START_BENCHMARK,
};
use penstock_api::place::PathText;
use penstock_api::rest::{StoreDetails, StoreView};
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::name::unescape_in_list;
use penstock_proto::units::{KIB, counted, parse_size};

use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::output::output_file::OutputFile;
use file_sizes::FileSizes;
use table::{print_benchmark, print_list};
use thread_numbers::ThreadNumbers;

/// Interval at which a benchmark that runs is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// The budget that a site chooses.
const BUDGET: &str = "5%";
/// Time for all peers to look at a store, or to remove files.
const LONG: Duration = Duration::from_secs(1800);

/// Measures what the stores of this site can do, and shows what was measured
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(clap::Subcommand)]
enum BenchCommand {
    /// Measures a store with the code that transfers write and read with
    ///
    /// All peers of the site that reach the store begin each step together. Files are made below
    /// `DIR/.penstock-bench-ID` and removed at the end. The site keeps the result. A measurement
    /// of less than 5 s is marked `short`, a read that a cache may have answered `cached`.
    Storage(Box<StorageArgs>),
    /// Measures transfers between two sites: the data sets, modes and directions of a matrix
    ///
    /// Each block of cells has each combination once, in an order that a seed shuffles. Results go
    /// to a directory, from which the same command continues after an interruption. All that a
    /// sweep makes in the stores is below `.penstock-sweep-ID`, and goes at the end.
    Sweep(sweep::SweepArgs),
    /// Measures the way between two sites, without their disks: `mem:` to `null:`, both directions
    ///
    /// Each transfer moves generated data to a store that keeps none. Their records stay in the
    /// history of the site, where `penstock forecast` finds them.
    Network(network::NetworkArgs),
    /// Shows the results that the site keeps, of a store or of all stores
    Show {
        /// The store
        store: Option<Name>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ends a benchmark that runs
    Cancel {
        /// The store
        store: Name,
    },
    /// Removes what benchmarks that broke off have left in a directory of a store
    Clean {
        /// The store, and the directory within it
        #[arg(value_name = "STORE[:DIR]", value_parser = clap::builder::ValueParser::os_string())]
        place: OsString,
    },
}

#[derive(clap::Args)]
struct StorageArgs {
    /// The store, and the directory within it for the files
    #[arg(value_name = "STORE[:DIR]", value_parser = clap::builder::ValueParser::os_string())]
    place: OsString,
    /// Number of peers that measure together: `all`, or a number
    #[arg(long, default_value = "all", value_name = "N", value_parser = peers)]
    peers: Peers,
    /// What to measure: `write`, `read` and `meta`
    #[arg(long, value_delimiter = ',', value_name = "OPERATION")]
    ops: Vec<BenchmarkKind>,
    /// Sizes of files: `auto`, a list such as `4KiB,1GiB`, or a range `4KiB-1GiB` in powers of two
    #[arg(long, default_value = "auto", value_parser = FileSizes::of)]
    sizes: FileSizes,
    /// Threads of each peer: `auto`, as a transfer within the host has, a number, a list such as
    /// `1,2,4`, or a range `1-8` in powers of two; each number is measured
    #[arg(long, default_value = "auto", value_name = "N", value_parser = ThreadNumbers::of)]
    threads: ThreadNumbers,
    /// Time for which a step hands out small files and parts of large ones, in seconds; a large
    /// file that was not handed out whole cannot be read
    #[arg(long, default_value_t = 10, value_name = "N")]
    seconds: u32,
    /// Number of times that each step is done
    #[arg(long, default_value_t = 3, value_name = "N")]
    repeats: u32,
    /// Bytes that the files may take at a time: a size, or a share of the free ones
    #[arg(long, default_value = BUDGET, value_name = "5%|BYTES", value_parser = budget)]
    budget: Budget,
    /// Measure although transfers read from the store or write to it
    #[arg(long)]
    with_load: bool,
    /// Have the hosts give up the caches of all their files before each read
    #[arg(long)]
    drop_caches: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the result to `storage.json` in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A number of peers, or none for all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Peers(Option<u32>);

fn peers(text: &str) -> Result<Peers, String> {
    match text.parse() {
        _ if text == "all" => Ok(Peers(None)),
        Ok(0) | Err(_) => Err("give `all` or a number from 1 on".to_owned()),
        Ok(number) => Ok(Peers(Some(number))),
    }
}

/// Bytes, a share of the free ones, or what the site chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Budget {
    Automatic,
    Share(f64),
    Bytes(u64),
}

/// Largest share of the free bytes, since 1.2 times the budget has to be free.
const PERCENT_MAX: f64 = 80.0;

fn budget(text: &str) -> Result<Budget, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return parse_size(text).map(Budget::Bytes).map_err(|error| error.to_string());
    };
    if text == BUDGET {
        return Ok(Budget::Automatic);
    }
    match percent.trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= PERCENT_MAX => {
            Ok(Budget::Share(percent / 100.0))
        }
        _ => Err(format!("a share is more than 0 % and at most {PERCENT_MAX} %")),
    }
}

/// Reads `STORE[:DIR]`; escapes in the directory are as `store ls` prints them.
fn place_of(text: &OsString) -> anyhow::Result<(Name, PathText)> {
    let wrong = |why: String| Failure::new(ExitCode::Usage, format!("give STORE[:DIR]: {why}"));
    let bytes = text.as_bytes();
    let (store, path) = match bytes.iter().position(|byte| *byte == b':') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let store = String::from_utf8_lossy(store).into_owned();
    let store = store.parse::<Name>().map_err(|error| wrong(error.to_string()))?;
    let path = path.strip_suffix(b"/").unwrap_or(path);
    Ok((store, PathText(unescape_in_list(path))))
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or what it answers; the benchmark failed.
pub(crate) fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    if let BenchCommand::Sweep(sweep) = &args.command {
        return sweep::run(sweep, &args.directory.directory);
    }
    if let BenchCommand::Network(network) = &args.command {
        return network::run(network, &args.directory.directory);
    }
    let client = Client::new(&args.directory.directory)?;
    match args.command {
        BenchCommand::Storage(args) => return measure(&client, &args),
        BenchCommand::Sweep(_) | BenchCommand::Network(_) => {}
        BenchCommand::Show { store, json } => show(&client, store, json)?,
        BenchCommand::Cancel { store } => cancel(&client, &store)?,
        BenchCommand::Clean { place } => {
            let (store, path) = place_of(&place)?;
            let cleanup = BenchmarkCleanup { path };
            let uri = CLEAN_BENCHMARKS.uri(&[&store]);
            let cleaned: BenchmarkCleaned = client.post_within(&uri, &cleanup, LONG)?;
            let files = counted(cleaned.files, "file");
            let directories = match cleaned.directories {
                1 => "1 directory".to_owned(),
                many => format!("{many} directories"),
            };
            exit::print(&format!("removed {files} and {directories}"))?;
        }
    }
    Ok(ExitCode::Done)
}

fn measure(client: &Client, args: &StorageArgs) -> anyhow::Result<ExitCode> {
    let (store, path) = place_of(&args.place)?;
    // A measurement takes minutes: a directory that cannot be written is told before it.
    let out = args.out.as_deref().map(result_file).transpose()?;
    let budget_bytes = match args.budget {
        Budget::Automatic => None,
        Budget::Bytes(bytes) => Some(bytes),
        Budget::Share(share) => {
            let details: StoreDetails = client.get(&SHOW_STORE.uri(&[&store]))?;
            let Some(space) = details.space else {
                let title = format!("the free bytes of store `{store}` are not known");
                let failure = Failure::new(ExitCode::Temporary, title);
                return Err(failure.hint("give the budget in bytes").into());
            };
            Some((space.free_bytes as f64 * share) as u64 / KIB * KIB)
        }
    };
    let request = BenchmarkRequest {
        path,
        peers: args.peers.0,
        operations: args.ops.clone(),
        sizes: args.sizes.bytes().to_vec(),
        threads: args.threads.numbers().to_vec(),
        seconds: Some(args.seconds),
        repeats: Some(args.repeats),
        budget_bytes,
        with_load: args.with_load,
        drop_caches: args.drop_caches,
    };
    let started: Benchmark = client.post_within(&START_BENCHMARK.uri(&[&store]), &request, LONG)?;
    exit::warn(&format!(
        "benchmark {} runs on {} in {}; `penstock bench cancel {store}` ends it",
        started.id.short(),
        counted(started.peers.len() as u64, "peer"),
        counted(started.steps.into(), "step")
    ));
    let ended = follow(client, &store, started.id)?;
    if let Some(out) = out {
        let text = serde_json::to_string_pretty(&ended)? + "\n";
        out.write(&AtomicBool::new(false), |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    if args.json {
        exit::print(&serde_json::to_string(&ended)?)?;
    } else {
        print_benchmark(&ended)?;
    }
    match ended.state {
        BenchmarkState::Done => Ok(ExitCode::Done),
        BenchmarkState::Cancelled => Ok(ExitCode::Interrupted),
        BenchmarkState::Running | BenchmarkState::Failed => {
            let why = ended.problem.unwrap_or_default();
            Err(Failure::new(ExitCode::Temporary, format!("the benchmark failed: {why}")).into())
        }
    }
}

/// Waits for the end of a benchmark, and tells its steps.
fn follow(client: &Client, store: &Name, id: TransferId) -> anyhow::Result<Benchmark> {
    let mut told = String::new();
    benchmark::ended(client, store, id, |found| {
        let step = format!("step {} of {}: {}", found.steps_done + 1, found.steps, found.step);
        if step != told && found.steps_done < found.steps {
            exit::warn(&step);
            told = step;
        }
        thread::sleep(LOOK);
        Ok(())
    })
}

/// Opens `storage.json` in a directory, which is made, and changes nothing yet.
fn result_file(directory: &Path) -> Result<OutputFile, Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            let title = format!("`{}` is not a directory", directory.display());
            Failure::new(ExitCode::Usage, title).hint("name another one by `--out`")
        }
        _ => Failure::io(format!("make `{}`", directory.display()), error)
            .hint("name a directory that can be written by `--out`"),
    };
    fs::create_dir_all(directory).map_err(failed)?;
    OutputFile::open(&directory.join("storage.json"))
}

fn show(client: &Client, store: Option<Name>, json: bool) -> anyhow::Result<()> {
    let of = |store: &Name| client.get::<BenchmarkList>(&LIST_BENCHMARKS.uri(&[store]));
    let (all, is_one) = match store {
        Some(store) => (of(&store)?.items, true),
        None => {
            let stores: Vec<StoreView> = client.list(&LIST_STORES.uri(&[]))?;
            let lists = stores.iter().map(|store| of(&store.name));
            let lists = lists.collect::<anyhow::Result<Vec<_>>>()?;
            (lists.into_iter().flat_map(|list| list.items).collect(), false)
        }
    };
    if json {
        for benchmark in &all {
            exit::print(&serde_json::to_string(benchmark)?)?;
        }
        return Ok(());
    }
    if all.is_empty() {
        exit::warn("nothing was measured: `penstock bench storage STORE` measures a store");
        return Ok(());
    }
    match all.first() {
        Some(newest) if is_one => {
            print_benchmark(newest)?;
            if all.len() > 1 {
                exit::print("")?;
                print_list(&all[1..])?;
            }
            Ok(())
        }
        _ => print_list(&all),
    }
}

fn cancel(client: &Client, store: &Name) -> anyhow::Result<()> {
    let list: BenchmarkList = client.get(&LIST_BENCHMARKS.uri(&[store]))?;
    let runs = |one: &&Benchmark| one.state == BenchmarkState::Running;
    let Some(running) = list.items.iter().find(runs) else {
        let title = format!("no benchmark of store `{store}` runs");
        return Err(Failure::new(ExitCode::Refused, title).into());
    };
    let uri = END_BENCHMARK.uri(&[store, &running.id]);
    client.delete(&uri)?;
    follow(client, store, running.id).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: budgets and places mean what they say, and what makes no sense is refused.
    #[test]
    fn arguments_are_read() {
        assert_eq!(budget("5%"), Ok(Budget::Automatic));
        assert_eq!(budget("20%"), Ok(Budget::Share(0.2)));
        assert_eq!(budget("2G"), Ok(Budget::Bytes(2 << 30)));
        assert!(budget("0%").is_err() && budget("81%").is_err());
        let place = |text: &str| place_of(&OsString::from(text));
        assert_eq!(place("data").unwrap(), ("data".parse().unwrap(), PathText::default()));
        let (store, path) = place("data:a/b/").unwrap();
        assert_eq!((store.as_str(), path.0.as_slice()), ("data", &b"a/b"[..]));
        assert!(place(":x").is_err());
        assert_eq!((peers("all"), peers("2")), (Ok(Peers(None)), Ok(Peers(Some(2)))));
        assert!(peers("0").is_err());
    }
}
