//! Costs of the nouns: frames, pages, digests and journal records, encoded and decoded.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::frame::{Data, EntryStatus, Fetch, FrameKind, Header, Record};
use penstock_proto::id::TransferId;
use penstock_proto::journal::{DigestForm, EntryDigest, JournalRecord};
use penstock_proto::manifest::{EntryDraft, PAGE_ENTRIES_MAX, Page, PageBuilder, page_digest};
use penstock_proto::slicing::Slicing;
use penstock_proto::units::{FileTime, KIB};
use penstock_proto::wire::Reader;

/// Bytes of each small file, and of a stride.
const FILE_BYTES: u64 = 4 * KIB;
const STRIDE_BYTES: u64 = 512 * KIB;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    frames(&mut criterion);
    pages(&mut criterion);
    digests(&mut criterion);
    journal(&mut criterion);
    criterion.final_summary();
}

/// Returns files of `bytes` each, one after the other, as a data frame carries them.
fn records(count: u32, bytes: u64) -> Vec<Record> {
    let record = |entry| Record {
        entry,
        status: EntryStatus::Ok,
        errno: 0,
        end: true,
        hole: false,
        offset: 0,
        length: bytes,
        digest: Digest([7; 32]),
        runs: Vec::new(),
        seen: None,
    };
    (0..count).map(record).collect()
}

fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frame");
    let header = Header::of(FrameKind::Data, 77, &[0; 60]);
    let bytes = header.encode();
    group.bench_function("header/encode", |bench| bench.iter(|| black_box(&header).encode()));
    group.bench_function("header/decode", |bench| bench.iter(|| Header::decode(black_box(&bytes))));
    for (count, length) in [(1, STRIDE_BYTES), (64, FILE_BYTES)] {
        let records = records(count, length);
        let payload = count * length as u32;
        group.throughput(Throughput::Elements(count.into()));
        group.bench_function(BenchmarkId::new("data/encode", count), |bench| {
            let mut body = Vec::new();
            bench.iter(|| {
                body.clear();
                body = Data::encode_into(black_box(&records), std::mem::take(&mut body));
            });
        });
        let body = Data::encode_into(&records, Vec::new());
        group.bench_function(BenchmarkId::new("data/decode", count), |bench| {
            bench.iter(|| Data::decode(black_box(&body), payload));
        });
    }
    group.throughput(Throughput::Elements(1));
    let fetch = Fetch {
        page: 3,
        page_digest: [9; 16],
        first_entry: 0,
        end_entry: 1024,
        generation: 0,
        offset: 0,
        length: 0,
    };
    let body = fetch.encode();
    group.bench_function("fetch/encode", |bench| bench.iter(|| black_box(&fetch).encode()));
    group.bench_function("fetch/decode", |bench| bench.iter(|| Fetch::decode(black_box(&body))));
    group.finish();
}

/// Returns a full page: four directories of 1,024 files each, with names of 24 bytes.
fn page() -> Page {
    let mut builder = PageBuilder::new(TransferId([1; 16]), 0, Slicing::default());
    for index in 0..PAGE_ENTRIES_MAX {
        let directory = format!("run-{:04}/detector", index / 1024);
        let name = format!("event-{index:012}.dat.gz");
        let draft = EntryDraft {
            name: name.as_bytes(),
            size: FILE_BYTES,
            mtime: FileTime { seconds: 1_790_000_000, nanoseconds: 5 },
            ..EntryDraft::default()
        };
        builder.push(directory.as_bytes(), &draft);
    }
    builder.seal()
}

fn pages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page");
    let sealed = page();
    let encoded = sealed.encode();
    group.throughput(Throughput::Elements(PAGE_ENTRIES_MAX as u64));
    group.bench_function("build", |bench| bench.iter(page));
    group.bench_function("encode", |bench| bench.iter(|| black_box(&sealed).encode()));
    group.bench_function("decode", |bench| bench.iter(|| Page::decode(black_box(&encoded))));
    group.bench_function("digest", |bench| bench.iter(|| page_digest(black_box(&encoded))));
    group.finish();
}

fn digests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("digest");
    let buffer = vec![0x5a; STRIDE_BYTES as usize];
    for (name, kind) in [("blake3", DigestKind::Blake3), ("xxh3-128", DigestKind::Xxh3)] {
        for bytes in [FILE_BYTES, STRIDE_BYTES] {
            group.throughput(Throughput::Bytes(bytes));
            group.bench_function(BenchmarkId::new(name, bytes), |bench| {
                let part = &buffer[..bytes as usize];
                bench.iter(|| kind.stride(bytes, 0, black_box(part)));
            });
        }
        // A file of 4 GiB from the digests of its 256 extents.
        let parts = vec![Digest([3; 32]); 256];
        let (part, total) = (16 * KIB * KIB, 4 * KIB * KIB * KIB);
        group.throughput(Throughput::Elements(256));
        group.bench_function(BenchmarkId::new(name, "merge 256"), |bench| {
            bench.iter(|| kind.merge(black_box(&parts), part, total, true));
        });
    }
    group.finish();
}

fn journal(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("journal");
    for files in [1, 1024] {
        let digest = |entry| {
            let (form, digest) = (DigestForm::Standard, Digest([1; 32]));
            EntryDigest { entry, form, digest, seen: None }
        };
        let record = JournalRecord::Written {
            piece: 1,
            generation: 0,
            epoch: 5,
            digests: (0..files).map(digest).collect(),
            failures: Vec::new(),
        };
        group.throughput(Throughput::Elements(files.into()));
        group.bench_function(BenchmarkId::new("append", files), |bench| {
            let mut log = Vec::new();
            bench.iter(|| {
                log.clear();
                black_box(&record).append_to(&mut log);
            });
        });
        let mut log = Vec::new();
        record.append_to(&mut log);
        group.bench_function(BenchmarkId::new("take", files), |bench| {
            bench.iter(|| JournalRecord::take_from(&mut Reader::new(black_box(&log))));
        });
    }
    group.finish();
}
