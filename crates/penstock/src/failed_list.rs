//! The list of failed items that a command leaves, for `--files-from`: complete, and written as it
//! is read, so that memory does not grow with it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use penstock_api::transfer::FailedItem;
use penstock_proto::name;

use crate::exit::{self, Failure};
use crate::output_file::OutputFile;

/// Failed items that are named on standard error; the list has all.
const TOLD_MAX: usize = 5;
/// Longest line that is read: the longest path, each byte escaped, and a message.
const LINE_BYTES_MAX: usize = 8 * name::PATH_BYTES_MAX;

/// A list that was written.
pub(crate) struct FailedList {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// How many items it names.
    pub(crate) items: u64,
}

/// Writes `penstock-failed-SHORT.txt` into the working directory or, where that cannot be written,
/// into the directory for temporary files, and names the first items on standard error. `fill`
/// writes JSON of a [`FailedItem`] a line; it is called once more for the second directory. `top`
/// is what the root of the data set is called. `None` if no item has failed: then no file is left.
///
/// # Errors
/// What `fill` returns; neither directory can be written.
pub(crate) fn write(
    short: &str,
    top: &str,
    mut fill: impl FnMut(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<Option<FailedList>> {
    let name = format!("penstock-failed-{short}.txt");
    let here = PathBuf::from(&name);
    let (path, told) = match write_at(&here, &mut fill) {
        Ok(told) => (here, told),
        Err(error) if error.downcast_ref::<Failure>().is_some_and(Failure::is_of_io) => {
            let elsewhere = std::env::temp_dir().join(name);
            let told = write_at(&elsewhere, &mut fill)?;
            (elsewhere, told)
        }
        Err(error) => return Err(error),
    };
    for item in &told.first {
        let path = item.path.to_string();
        let path = if path.is_empty() { top } else { &path };
        exit::warn(&format!("failed: {path}: {}", item.message));
    }
    Ok((told.items > 0).then_some(FailedList { path, items: told.items }))
}

/// What a list has.
#[derive(Default)]
struct Told {
    items: u64,
    first: Vec<FailedItem>,
}

fn write_at(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<Told> {
    let mut told = Told::default();
    OutputFile::open(path)?.write_if(&AtomicBool::new(false), |out| {
        let mut lines = Lines { out, line: Vec::new(), told: &mut told };
        fill(&mut lines)?;
        lines.end()?;
        Ok(told.items > 0)
    })?;
    Ok(told)
}

/// Takes lines of JSON, and writes the paths in them as `--files-from` reads them.
struct Lines<'a> {
    out: &'a mut dyn Write,
    line: Vec<u8>,
    told: &'a mut Told,
}

impl Lines<'_> {
    fn end(&mut self) -> io::Result<()> {
        if self.line.is_empty() {
            return Ok(());
        }
        let item: FailedItem = serde_json::from_slice(&self.line)?;
        self.line.clear();
        self.out.write_all(name::escape_in_list(&item.path.0).as_bytes())?;
        self.out.write_all(b"\n")?;
        self.told.items += 1;
        if self.told.first.len() < TOLD_MAX {
            self.told.first.push(item);
        }
        Ok(())
    }
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
            if self.line.len() + bytes.len() > LINE_BYTES_MAX {
                let message = "a line of the list of failed items is too long";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.line.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        self.line.extend_from_slice(&bytes[..end]);
        self.end()?;
        Ok(end + 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
