//! The one door to the project's own checks: `cargo xtask verify | fix | wrap | reference | web |
//! man | tidy | fuzz | bench | lab`.
//!
//! `verify` writes nothing but build products and is what every gate runs; `fix` repairs what a
//! machine can repair. Each step says its name before and its duration after; all steps run, and
//! the failed ones are named at the end.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "talking to the person at the terminal is its job")]

mod bare;
mod bench;
mod dependencies;
mod documents;
mod fuzz;
mod lab;
mod language;
mod layers;
mod markdown;
mod modules;
mod ratchet;
mod reference;
mod remarks;
mod schemathesis;
mod sdk;
mod source;
mod step;
mod suite;
mod tidy;
mod web;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use step::Steps;

const HELP: &str = "\
Usage: cargo xtask <COMMAND>

  verify [STEP...]  checks everything, or the steps named: format tidy clippy test reference sdk
                    web docs deny fuzz bench
  verify long [STEP...]
                    checks what takes long, or the steps named: bare (the first minute on bare
                    releases of Debian) schemathesis (all kinds of requests to a daemon) lowest
                    (the Python client with the oldest libraries)
  fix               formats, wraps Markdown, and applies what clippy suggests
  wrap              wraps Markdown at 100 columns
  reference         writes docs/{reference,problems,api}.md, openapi/penstock-v1.json, and the
                    codes of the Python client
  web               builds the web page, and packs it into web/dist.tar
  man DIR           writes a man page for each command into DIR
  tidy [--places]   only the limits on sizes, on imports between crates and modules, on the
                    language of comments, and on Markdown; `--places` lists each place that
                    the figures count
  fuzz [SECONDS]    runs every fuzz target for so many seconds each (default 10)
  bench [ARG...]    builds a release, and compares it with the rivals that are installed;
                    `bench --help` lists the arguments
  lab ARG...        builds the laboratory of networks and runs it: `lab up --peers 4 --nics 2`;
                    `lab --help` lists its commands

Exit codes: 0 all steps passed, 1 a step failed, 2 wrong command line";

/// The steps of `verify long`, in the order they run.
const LONG_STEPS: [&str; 3] = ["bare", "schemathesis", "lowest"];
/// The steps of `verify`, in the order they run.
const STEPS: [&str; 11] = [
    "format",
    "tidy",
    "clippy",
    "test",
    "reference",
    "sdk",
    "web",
    "docs",
    "deny",
    "fuzz",
    "bench",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["verify", "long", steps @ ..] => verify_long(steps),
        ["verify", steps @ ..] => verify(steps),
        ["fix"] => fix(),
        ["wrap"] => documents::wrap(&root()),
        ["reference"] => reference::write(&root()),
        ["web"] => web::write(&root()),
        ["man", directory] => reference::man(&root(), directory),
        ["tidy"] => Steps::all().run("tidy", || tidy::check(&root(), false)).finish(),
        ["tidy", "--places"] => Steps::all().run("tidy", || tidy::check(&root(), true)).finish(),
        ["fuzz"] => Steps::all().run("fuzz", || fuzz::smoke(&root(), 10)).finish(),
        ["fuzz", seconds] => match seconds.parse() {
            Ok(seconds) => Steps::all().run("fuzz", || fuzz::smoke(&root(), seconds)).finish(),
            Err(_) => return usage(),
        },
        ["bench", arguments @ ..] => bench::run(&root(), arguments),
        ["lab", arguments @ ..] => lab::run(&root(), arguments),
        _ => return usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    println!("{HELP}");
    ExitCode::from(2)
}

/// The root of the work tree, whatever the current directory.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

fn verify(steps: &[&str]) -> anyhow::Result<()> {
    let root = root();
    let deny_warnings = ["--", "-D", "warnings"];
    Steps::named(steps, &STEPS)?
        .run("format", || cargo(&["fmt", "--all", "--check"], &[]))
        .run("tidy", || tidy::check(&root, false))
        .run("clippy", || {
            let clippy = ["clippy", "--workspace", "--all-targets", "--locked"];
            cargo(&[&clippy[..], &deny_warnings].concat(), &[])
        })
        .run("test", || suite::run(&root))
        .run("reference", || reference::check(&root))
        .run("sdk", || sdk::check(&root))
        .run("web", || web::check(&root))
        .run("docs", || {
            let doc = ["doc", "--workspace", "--no-deps", "--locked"];
            cargo(&doc, &[("RUSTDOCFLAGS", "-D warnings")])
        })
        .run("deny", || dependencies::check(&root))
        .run("fuzz", || fuzz::smoke(&root, 10))
        .run("bench", || bench::smoke(&root))
        .finish()
}

fn verify_long(steps: &[&str]) -> anyhow::Result<()> {
    Steps::named(steps, &LONG_STEPS)?
        .run("bare", || bare::check(&root()))
        .run("schemathesis", || schemathesis::check(&root()))
        .run("lowest", || sdk::check_lowest(&root()))
        .finish()
}

fn fix() -> anyhow::Result<()> {
    let clippy = ["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace"];
    Steps::all()
        .run("clippy", || cargo(&[&clippy[..], &["--all-targets"]].concat(), &[]))
        .run("format", || cargo(&["fmt", "--all"], &[]))
        .run("documents", || documents::wrap(&root()))
        .finish()
}

/// Whether this is a gate, where a check that does not run must not look like one that passed.
fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// Runs cargo in the root with its output shown; fails as it fails.
fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    println!("$ cargo {}", arguments.join(" "));
    let status = Command::new("cargo")
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .context("start cargo")?;
    if !status.success() {
        bail!("`cargo {}` failed: {status}", arguments[0]);
    }
    Ok(())
}
