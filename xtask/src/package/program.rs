//! Facts of a program file, as `readelf` prints them: its requirements of a host, and its
//! protections there.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, bail};

use super::command::output;

/// Facts of an ELF file that packages depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The processor that it is for.
    pub(crate) machine: Machine,
    /// Shared libraries that it loads by name; none if it is static.
    pub(crate) libraries: BTreeSet<String>,
    /// The newest version of glibc among its symbols, as (2, 28).
    pub(crate) glibc: Option<(u32, u32)>,
    /// The usual protections of our programs that it lacks, in words.
    pub(crate) lacks: Vec<&'static str>,
}

/// A processor that programs are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// x86-64.
    X86,
    /// arm64.
    Arm,
}

impl Machine {
    /// Returns the architecture's name for rpm, Rust and `uname -m`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// Returns the architecture's name for dpkg.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// Returns whether this machine runs its programs.
    pub(crate) fn is_here(self) -> bool {
        self.name() == std::env::consts::ARCH
    }
}

impl Program {
    /// Reads the facts of a program file.
    ///
    /// # Errors
    /// The file is no ELF file of a known processor, or `readelf` is missing.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let words = ["--wide", "--file-header", "--program-headers", "--dynamic", "--version-info"];
        let printed = output("readelf", &[&words[..], &[super::text(path)?]].concat(), &[])
            .context("binutils has readelf; `scripts/setup.sh test` installs it")?;
        Self::parse(&printed).with_context(|| format!("read the program {}", path.display()))
    }

    /// Returns the facts in the output of `readelf`.
    ///
    /// # Errors
    /// The processor is not known.
    fn parse(printed: &str) -> anyhow::Result<Self> {
        let field = |name: &str| {
            let line = printed.lines().find_map(|line| line.trim().strip_prefix(name));
            line.map(str::trim).unwrap_or_default()
        };
        let machine = match field("Machine:") {
            "Advanced Micro Devices X86-64" => Machine::X86,
            "AArch64" => Machine::Arm,
            other => bail!("no packages are made for the processor `{other}`"),
        };
        let has = |word: &str| printed.contains(word);
        let stack_is_code =
            printed.lines().any(|line| line.contains("GNU_STACK") && line.contains("RWE"));
        // zig links static programs at a fixed address.
        let is_static = !has("(NEEDED)");
        let is_movable = field("Type:").starts_with("DYN");
        let lacks = [
            (!is_movable && !is_static, "addresses chosen at its start (PIE)"),
            (!has("GNU_RELRO"), "tables that are read-only after its start (RELRO)"),
            (has("(RPATH)") || has("(RUNPATH)"), "freedom from a path of libraries (RPATH)"),
            (!has("GNU_STACK") || stack_is_code, "a stack without code"),
        ];
        Ok(Self {
            machine,
            libraries: between(printed, "(NEEDED)", "[", "]").map(str::to_owned).collect(),
            glibc: between(printed, "Name: GLIBC_", "GLIBC_", " ").filter_map(version).max(),
            lacks: lacks.into_iter().filter_map(|(lacks, word)| lacks.then_some(word)).collect(),
        })
    }

    /// Returns whether it needs nothing of its host but the kernel.
    pub(crate) fn is_static(&self) -> bool {
        self.libraries.is_empty()
    }

    /// Returns the newest glibc that it asks for, for people.
    pub(crate) fn glibc_text(&self) -> String {
        match self.glibc {
            Some((major, minor)) => format!("glibc {major}.{minor}"),
            None => "no glibc".to_owned(),
        }
    }

    /// Checks that it has all protections, and asks for a glibc that is at most this one.
    ///
    /// # Errors
    /// The program lacks a protection, or asks for a newer glibc.
    pub(crate) fn check(&self, glibc_max: Option<(u32, u32)>) -> anyhow::Result<()> {
        if !self.lacks.is_empty() {
            bail!("the program lacks {}", self.lacks.join(", "));
        }
        match (self.glibc, glibc_max) {
            (Some(glibc), Some(most)) if glibc > most => bail!(
                "the program asks for {}, and packages are for hosts with {}.{}: build it with \
                 `make packages`",
                self.glibc_text(),
                most.0,
                most.1
            ),
            _ => Ok(()),
        }
    }
}

/// Returns the text between two marks, in each line that has a word.
fn between<'a>(
    text: &'a str,
    word: &'a str,
    from: &'a str,
    to: &'a str,
) -> impl Iterator<Item = &'a str> {
    text.lines().filter(move |line| line.contains(word)).filter_map(move |line| {
        let (_, rest) = line.split_once(from)?;
        Some(rest.split(to).next().unwrap_or(rest))
    })
}

/// Returns the first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
  Type:                              DYN (Position-Independent Executable file)
  Machine:                           Advanced Micro Devices X86-64
  GNU_RELRO      0x6174f80 0x0000000006176f80 0x3559a0 0x356080 R   0x1
  GNU_STACK      0x000000 0x0000000000000000 0x000000 0x000000 RW  0
 0x0000000000000001 (NEEDED)             Shared library: [libm.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 2
  0x0020:   Name: GLIBC_2.28  Flags: none  Version: 3
  0x0030:   Name: GLIBC_2.2.5  Flags: none  Version: 4
";

    /// Promise: the newest version counts by its numbers, and a newer one than packages are for is
    /// refused.
    #[test]
    fn the_newest_symbol_counts() {
        let program = Program::parse(PRINTED).unwrap();
        assert_eq!(program.machine, Machine::X86);
        assert_eq!(program.glibc, Some((2, 28)));
        assert_eq!(program.libraries.iter().collect::<Vec<_>>(), ["libc.so.6", "libm.so.6"]);
        program.check(Some((2, 28))).unwrap();
        let error = program.check(Some((2, 27))).unwrap_err().to_string();
        assert!(error.contains("asks for glibc 2.28"), "{error}");
    }

    /// Promise: a program without a protection is refused, with the name of the protection.
    #[test]
    fn protections_are_needed() {
        for (from, to, word) in [
            ("DYN", "EXEC", "PIE"),
            ("GNU_RELRO", "LOAD", "RELRO"),
            (" RW ", " RWE ", "a stack without code"),
            ("(NEEDED)", "(RUNPATH)", "RPATH"),
        ] {
            let program = Program::parse(&PRINTED.replace(from, to)).unwrap();
            assert!(program.check(None).unwrap_err().to_string().contains(word), "{word}");
        }
    }

    /// Promise: a processor without packages is named.
    #[test]
    fn an_unknown_processor_is_named() {
        let error = Program::parse("  Machine: RISC-V\n").unwrap_err().to_string();
        assert!(error.contains("`RISC-V`"), "{error}");
    }
}
