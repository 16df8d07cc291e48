//! Programs for hosts that are older than this one, or of another kind, by zig as the C compiler.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::command::{Variables, output, run};
use crate::python;

/// The oldest glibc that packages are for: that of EL8, and of Debian 10.
pub(crate) const GLIBC: (u32, u32) = (2, 28);
/// The pinned zig and its cargo command, below the root.
const PINNED: &str = "packaging/requirements-zig.txt";
/// Directory in which zig and its cargo command are installed, below the root.
const TOOLS: &str = "target/tools/zig";
/// Directory of the clones from which the program is built twice, below the root.
const TWICE: &str = "target/packaging/twice";

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
/// The same sources give the same bytes. The paths of the sources and of the registry are renamed
/// in Rust and in C, and the macros of C for the time of the build have a constant value, which
/// mimalloc would include.
///
/// # Errors
/// The tools cannot be installed, or the program does not build.
pub(crate) fn build(root: &Path, target: Target) -> anyhow::Result<PathBuf> {
    build_with(&install(root)?, root, target, &[])
}

/// Builds the static program of the last commit in two clones, at two paths and without a common
/// cache of objects, and compares the bytes. Takes about 20 minutes of two cores and 3 GB.
///
/// # Errors
/// The bytes differ: both programs stay where the message says. Or a build fails.
pub(crate) fn check_bytes(root: &Path) -> anyhow::Result<()> {
    let tools = install(root)?;
    let place = root.join(TWICE);
    let mut built = Vec::new();
    for name in ["one", "another/one"] {
        let clone = place.join(name);
        if clone.exists() {
            fs::remove_dir_all(&clone).with_context(|| format!("remove {}", clone.display()))?;
        }
        run("git", &["clone", "--quiet", super::text(root)?, super::text(&clone)?], &[])?;
        let cache = clone.join("target/zig-cache");
        let variables = [("ZIG_GLOBAL_CACHE_DIR", super::text(&cache)?)];
        built.push(build_with(&tools, &clone, Target::X86Static, &variables)?);
    }
    let read = |path: &PathBuf| fs::read(path).with_context(|| path.display().to_string());
    if read(&built[0])? != read(&built[1])? {
        bail!("two builds of one commit differ: {} and {}", built[0].display(), built[1].display());
    }
    fs::remove_dir_all(&place).with_context(|| format!("remove {}", place.display()))
}

fn build_with(
    tools: &Path,
    root: &Path,
    target: Target,
    more: &Variables<'_>,
) -> anyhow::Result<PathBuf> {
    let registry = match std::env::var("CARGO_HOME") {
        Ok(home) => home,
        Err(_) => format!("{}/.cargo", std::env::var("HOME").context("there is no HOME")?),
    };
    let root_text = super::text(root)?;
    let rust =
        format!("--remap-path-prefix={registry}=/cargo --remap-path-prefix={root_text}=/penstock");
    let c = format!(
        "-ffile-prefix-map={registry}=/cargo -ffile-prefix-map={root_text}=/penstock \
         -Wno-builtin-macro-redefined -D__DATE__=\"\" -D__TIME__=\"\""
    );
    let path = format!(
        "{}/bin:{}",
        super::text(tools)?,
        std::env::var("PATH").context("there is no PATH")?
    );
    let named = match target {
        Target::X86Glibc => format!("{}.{}.{}", target.triple(), GLIBC.0, GLIBC.1),
        _ => target.triple().to_owned(),
    };
    let (manifest, products) = (root.join("Cargo.toml"), root.join("target"));
    let words = ["zigbuild", "--release", "--locked", "--package", "penstock"];
    let words =
        [&words[..], &["--target", &named, "--manifest-path", super::text(&manifest)?]].concat();
    let variables = [
        ("PATH", &*path),
        ("RUSTFLAGS", &*rust),
        ("TARGET_CFLAGS", &*c),
        ("CARGO_INCREMENTAL", "0"),
        ("CARGO_TARGET_DIR", super::text(&products)?),
    ];
    run("cargo", &words, &[&variables[..], more].concat())?;
    Ok(products.join(target.triple()).join("release/penstock"))
}
