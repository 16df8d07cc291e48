//! The entry point of the project's own checks: `cargo xtask verify | fix | wrap | reference | web
//! | man | package | stage | release | tidy | fuzz | bench | lab`.
//!
//! Every gate runs `verify`, which writes only build products; `fix` makes the repairs that need no
//! person. Each step prints its name at its start and its duration at its end. All steps run, and
//! the last lines name the failed ones.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "talking to the person at the terminal is its job")]

mod ansible;
mod bare;
mod bench;
mod dependencies;
mod documents;
mod fuzz;
mod keycloak;
mod lab;
mod language;
mod layers;
mod markdown;
mod modules;
mod package;
mod packaging;
mod python;
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
                    web docs deny packages fuzz bench
  verify long [STEP...]
                    checks what takes long, or the steps named: bare (the first minute on bare
                    releases of Debian) schemathesis (all kinds of requests to a daemon) lowest
                    (the Python client with the oldest libraries) keycloak (a log-in there) otlp
                    (clippy with the feature of that name) system (the service under a systemd)
                    container (the image, and two sites of it) packages (installs, upgrades and
                    removes them on hosts of Debian, and by dnf, and runs the quickstart) ansible
                    (the playbooks, on hosts of real systemd) reproducible (two builds of the last
                    commit give the same bytes)
  fix               formats, wraps Markdown, and applies what clippy suggests
  wrap              wraps Markdown at 100 columns
  reference         writes docs/{reference,problems,api}.md, openapi/penstock-v1.json, and the
                    codes of the Python client
  web               builds the web page, and packs it into web/dist.tar
  man DIR           writes a man page for each command into DIR
  package [--program FILE] [--out DIR] [--papers FILE] [--version VERSION] [--level N]
                    makes the packages of a release in target/packages, or those of one program;
                    `--papers` prints manual and completions where FILE is for other machines,
                    `--version` names a build between releases, and `--level 0` compresses fast
  package --contents [PENSTOCK]
                    writes packaging/contents.txt, the lists of files in packages; PENSTOCK is a
                    program that prints manual and completions, the one under test unless given
  stage [--prefix DIR] [--program FILE] [--out DIR]
                    writes the tree of target/release/penstock, or FILE, for `make install`
  release --check   lists the parts of a release, and what each lacks
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
const LONG_STEPS: [&str; 10] = [
    "bare",
    "schemathesis",
    "lowest",
    "keycloak",
    "otlp",
    "system",
    "container",
    "packages",
    "ansible",
    "reproducible",
];
/// Clippy of the program with the export of logs and spans.
const OTLP_CLIPPY: [&str; 9] =
    ["clippy", "-p", "penstock", "--all-targets", "--features", "otlp", "--", "-D", "warnings"];
/// Files of tests of the step `system`.
const SYSTEM_TESTS: [&str; 4] =
    ["test_lab.py", "test_system.py", "test_firewall.py", "test_selinux.py"];
/// The steps of `verify`, in the order they run.
const STEPS: [&str; 12] = [
    "format",
    "tidy",
    "clippy",
    "test",
    "reference",
    "sdk",
    "web",
    "docs",
    "deny",
    "packages",
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
        ["package", "--contents"] => package::write_contents(&root(), None),
        ["package", "--contents", papers] => package::write_contents(&root(), Some(papers)),
        ["package", arguments @ ..] => package::run(&root(), arguments),
        ["stage", arguments @ ..] => package::stage(&root(), arguments),
        ["release", "--check"] => package::check_release(&root()),
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

/// Returns the root of the work tree, for any current directory.
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
        .run("packages", || package::check(&root))
        .run("fuzz", || fuzz::smoke(&root, 10))
        .run("bench", || bench::smoke(&root))
        .finish()
}

fn verify_long(steps: &[&str]) -> anyhow::Result<()> {
    Steps::named(steps, &LONG_STEPS)?
        .run("bare", || bare::check(&root()))
        .run("schemathesis", || schemathesis::check(&root()))
        .run("lowest", || sdk::check_lowest(&root()))
        .run("keycloak", || keycloak::check(&root()))
        .run("otlp", || cargo(&OTLP_CLIPPY, &[]))
        .run("system", || {
            packaging::check_types(&root())?;
            packaging::check(&root(), &SYSTEM_TESTS)
        })
        .run("container", || packaging::check(&root(), &["test_container.py"]))
        .run("packages", || package::check_in_roots(&root()))
        .run("ansible", || ansible::check(&root()))
        .run("reproducible", || package::check_bytes(&root()))
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

/// Returns whether this is a gate, where a check that does not run must not look like a success.
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
