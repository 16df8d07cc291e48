//! Lists for another peer of the site, which owns the scan.
//!
//! Findings are sent only after the store was found to be unchanged (C3), in bounded parts (promise
//! (g)). A directory that this host cannot list whole, for its size or for an error, is left to the
//! asking peer. No directory is ever listed incompletely because of this host (promise (e)). A
//! directory on another file system than the data set's root is left to that peer too, since it may
//! be mounted here and not there.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use penstock_proto::listing::{
    LISTED_BYTES_MAX, LISTED_ENTRIES_MAX, ListPart, ListWork, ListedEntry, ListedKind,
};
use penstock_proto::name;
use penstock_store::{Dir, DirEntry, ListBuffer, Source};

use super::found::{is_mount, kind_of, listed_kind};
use super::state::Scan;
use crate::stores::access::AccessError;
use crate::stores::chain;

/// Bytes that are held back until the store was looked at.
const HELD_BYTES: usize = 1 << 20;
/// Longest time for which findings are held back. A part, or a sign of life, is sent after this
/// time at the latest.
const HELD_TIME: Duration = Duration::from_millis(300);

/// Takes the parts of an answer. Returns `false` if the asking peer no longer listens. May block.
pub(crate) type Emit<'a> = dyn FnMut(ListPart) -> bool + 'a;

/// The early end of an answer: the asking peer no longer listens, or the store is gone.
struct Over;

struct Answer<'a> {
    scan: &'a Scan,
    source: &'a Source,
    check: &'a dyn Fn() -> Result<(), AccessError>,
    emit: &'a mut Emit<'a>,
    held: Vec<ListPart>,
    held_bytes: usize,
    told: Instant,
    looked: u64,
    /// Device of the data set's root.
    device: u64,
}

/// Lists the directories that another peer asks for. Blocks for as long as the store takes. `check`
/// says whether the store is unchanged since the scan began.
pub(super) fn list_for(
    scan: &Scan,
    source: &Source,
    check: &dyn Fn() -> Result<(), AccessError>,
    work: &ListWork,
    emit: &mut Emit<'_>,
) {
    let root = source.open_dir(&scan.options.root);
    let device = match root.and_then(|dir| source.stat(&dir, b"")) {
        Ok(meta) => meta.device,
        Err(error) => {
            let why = format!("the data set's root: {}", chain(&error));
            emit(ListPart::Ended { why });
            return;
        }
    };
    let mut answer = Answer {
        scan,
        source,
        check,
        emit,
        held: vec![ListPart::Begun { device }],
        held_bytes: 0,
        told: Instant::now(),
        looked: 0,
        device,
    };
    // An error needs no further message: the asking peer no longer listens, or already knows that
    // the store is gone.
    let _ = answer.run(work);
}

impl Answer<'_> {
    fn run(&mut self, work: &ListWork) -> Result<(), Over> {
        match work {
            ListWork::Directories(directories) => {
                let mut buffer = ListBuffer::new();
                for directory in directories {
                    let part = self.list(directory, &mut buffer)?;
                    self.hold(part)?;
                }
            }
            ListWork::Names { directory, names } => {
                let part = self.look_at(directory, names)?;
                self.hold(part)?;
            }
        }
        self.held.push(ListPart::Done);
        self.tell()
    }

    /// Keeps a part until enough has come together.
    fn hold(&mut self, part: ListPart) -> Result<(), Over> {
        if let ListPart::Found { entries, .. } = &part {
            self.held_bytes += entries.iter().map(ListedEntry::wire_bytes).sum::<usize>();
        }
        self.held.push(part);
        if self.held_bytes >= HELD_BYTES || self.told.elapsed() >= HELD_TIME {
            self.tell()?;
        }
        Ok(())
    }

    /// Sends the held parts, if the store is still there.
    fn tell(&mut self) -> Result<(), Over> {
        if let Err(error) = (self.check)() {
            (self.emit)(ListPart::Ended { why: chain(&error) });
            return Err(Over);
        }
        self.held_bytes = 0;
        self.told = Instant::now();
        for part in self.held.drain(..) {
            if !(self.emit)(part) {
                return Err(Over);
            }
        }
        Ok(())
    }

    /// Sends a sign of life, if nothing was sent for a while.
    fn live(&mut self) -> Result<(), Over> {
        if self.told.elapsed() < HELD_TIME {
            return Ok(());
        }
        self.told = Instant::now();
        let alive = ListPart::Alive { looked: self.looked };
        if (self.emit)(alive) { Ok(()) } else { Err(Over) }
    }

    /// Lists a whole directory, unless it has too many entries.
    fn list(&mut self, directory: &[u8], buffer: &mut ListBuffer) -> Result<ListPart, Over> {
        let full = name::join(self.scan.root(), directory);
        let Ok(dir) = self.source.open_dir(&full) else { return Ok(ListPart::Left) };
        if is_mount(self.source, &dir, Some(self.device)) {
            return Ok(ListPart::Left);
        }
        let mut names = Vec::new();
        let mut not_here = false;
        let listed = self.source.list(&dir, buffer, &mut |entry| {
            // The asking peer decides about own names.
            not_here = names.len() >= LISTED_ENTRIES_MAX || entry.own.is_some();
            if not_here {
                return ControlFlow::Break(());
            }
            names.push((entry.name.to_vec(), entry.kind.map(listed_kind)));
            ControlFlow::Continue(())
        });
        if not_here || listed.is_err() {
            return Ok(ListPart::Left);
        }
        let (part, answered) = self.look(&dir, directory, &names)?;
        let whole = answered == names.len();
        Ok(if whole { part } else { ListPart::Left })
    }

    /// Looks at the first of some names, as many as fit into a part.
    fn look_at(
        &mut self,
        directory: &[u8],
        names: &[(Vec<u8>, Option<ListedKind>)],
    ) -> Result<ListPart, Over> {
        let full = name::join(self.scan.root(), directory);
        let Ok(dir) = self.source.open_dir(&full) else { return Ok(ListPart::Left) };
        if is_mount(self.source, &dir, Some(self.device)) {
            return Ok(ListPart::Left);
        }
        let (part, answered) = self.look(&dir, directory, names)?;
        Ok(match part {
            ListPart::Found { excluded, entries, .. } => {
                let names = u32::try_from(answered).unwrap_or(u32::MAX);
                ListPart::Found { names, excluded, entries }
            }
            other => other,
        })
    }

    /// Looks at names of a directory. Returns how many of them are answered.
    fn look(
        &mut self,
        dir: &Dir,
        directory: &[u8],
        names: &[(Vec<u8>, Option<ListedKind>)],
    ) -> Result<(ListPart, usize), Over> {
        let (mut entries, mut bytes, mut excluded, mut answered) = (Vec::new(), 0, 0, 0);
        for (name, told) in names {
            if bytes >= LISTED_BYTES_MAX {
                break;
            }
            let entry = DirEntry { name, kind: told.map(kind_of), own: None };
            match self.scan.choose(self.source, dir, directory, &entry) {
                None => excluded += 1,
                Some(found) => match found.listed() {
                    Some(entry) => {
                        bytes += entry.wire_bytes();
                        entries.push(entry);
                    }
                    // A missing name also counts: a cache may deny a new one.
                    None => return Ok((ListPart::Left, 0)),
                },
            }
            answered += 1;
            self.looked += 1;
            self.live()?;
        }
        Ok((ListPart::Found { names: 0, excluded, entries }, answered))
    }
}
