//! Programs for hosts that are older than this one, or of another kind, by zig as the C compiler.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::command::{output, run};
use crate::python;

/// The oldest glibc that packages are for: that of EL8, and of Debian 10.
pub(crate) const GLIBC: (u32, u32) = (2, 28);
/// The pinned zig and its cargo command, below the root.
const PINNED: &str = "packaging/requirements-zig.txt";
/// Directory in which zig and its cargo command are installed, below the root.
const TOOLS: &str = "target/tools/zig";

/// A kind of host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// x86-64 with a glibc that is [`GLIBC`] or newer.
    X86Glibc,
    /// x86-64 with any C library, or none.
    X86Static,
    /// arm64 with any C library, or none.
    ArmStatic,
}

impl Target {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::X86Glibc, Self::X86Static, Self::ArmStatic];

    /// Returns Rust's name of the target.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Self::X86Glibc => "x86_64-unknown-linux-gnu",
            Self::X86Static => "x86_64-unknown-linux-musl",
            Self::ArmStatic => "aarch64-unknown-linux-musl",
        }
    }
}

/// Installs zig and its cargo command, unless they are there, and returns where.
///
/// # Errors
/// There is no Python with `venv`, or pip fails.
pub(crate) fn install(root: &Path) -> anyhow::Result<PathBuf> {
    let (tools, wheels) = (root.join(TOOLS), root.join("target/tools/zig-wheels"));
    python::install("zig, which builds for older hosts,", &root.join(PINNED), &tools, &wheels)?;
    Ok(tools)
}

/// Makes sure that this host's Rust has the standard library for each kind of host: rustup adds
/// missing ones.
///
/// # Errors
/// One is missing, as with the Rust of Debian's packages.
pub(crate) fn check_libraries() -> anyhow::Result<()> {
    let triples = Target::ALL.map(Target::triple);
    if output("rustup", &["--version"], &[]).is_ok() {
        run("rustup", &[&["target", "add"], &triples[..]].concat(), &[])?;
    }
    let mut lacking = Vec::new();
    for triple in triples {
        let words = ["--print", "target-libdir", "--target", triple];
        if !Path::new(output("rustc", &words, &[])?.trim()).is_dir() {
            lacking.push(triple);
        }
    }
    if !lacking.is_empty() {
        bail!(
            "this host's Rust has no standard library for {}: install rustup, as \
             `scripts/setup.sh packages` does, and run `rustup target add {}`",
            lacking.join(", "),
            lacking.join(" ")
        );
    }
    Ok(())
}

/// Builds the release for a kind of host, and returns the path of the program. Takes minutes.
///
/// Neither the place of the sources nor that of the registry is in it: both are renamed, in Rust
/// and in C.
///
/// # Errors
/// The tools cannot be installed, or the program does not build.
pub(crate) fn build(root: &Path, target: Target) -> anyhow::Result<PathBuf> {
    let tools = install(root)?;
    let registry = match std::env::var("CARGO_HOME") {
        Ok(home) => home,
        Err(_) => format!("{}/.cargo", std::env::var("HOME").context("there is no HOME")?),
    };
    let root_text = super::text(root)?;
    let rust =
        format!("--remap-path-prefix={registry}=/cargo --remap-path-prefix={root_text}=/penstock");
    let c = format!("-ffile-prefix-map={registry}=/cargo -ffile-prefix-map={root_text}=/penstock");
    let path = format!(
        "{}/bin:{}",
        super::text(&tools)?,
        std::env::var("PATH").context("there is no PATH")?
    );
    let named = match target {
        Target::X86Glibc => format!("{}.{}.{}", target.triple(), GLIBC.0, GLIBC.1),
        _ => target.triple().to_owned(),
    };
    let manifest = root.join("Cargo.toml");
    let words = ["zigbuild", "--release", "--locked", "--package", "penstock"];
    let words =
        [&words[..], &["--target", &named, "--manifest-path", super::text(&manifest)?]].concat();
    let variables = [
        ("PATH", &*path),
        ("RUSTFLAGS", &*rust),
        ("TARGET_CFLAGS", &*c),
        ("CARGO_INCREMENTAL", "0"),
    ];
    run("cargo", &words, &variables)?;
    Ok(root.join("target").join(target.triple()).join("release/penstock"))
}
