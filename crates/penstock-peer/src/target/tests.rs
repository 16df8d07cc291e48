use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Condvar;
use std::sync::mpsc::{Sender, channel};

use penstock_api::limits::Limits;
use penstock_api::preserve::Preserve;
use penstock_api::problem::{Exit, ProblemCode};
use penstock_api::select::Selection;
use penstock_api::task::{Report, Work, WorkReply};
use penstock_api::update::UpdateOptions;
use penstock_proto::digest::Digest;
use penstock_proto::frame::Framing;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::journal::{DigestForm, EntryDigest};
use penstock_proto::manifest::{EntryDraft, PageBuilder};
use penstock_proto::slicing::{PieceRef, Slicing};
use penstock_proto::units::FileTime;
use penstock_store::IoMode;

use super::*;
use crate::stores::dead_mount::DeadMount;
use crate::stores::{StoreKind, StoreSpec};

/// No wait of a test is longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A controller that the test drives: it hands out the work that the test sets, and stores the
/// reports.
#[derive(Default)]
struct Controller {
    work: Mutex<VecDeque<WorkReply>>,
    heard: Mutex<Vec<Report>>,
    news: Condvar,
    /// A page to use instead of that of one directory.
    page: Mutex<Option<TaskPage>>,
    /// Receives the problem with which the task breaks, where a test expects it.
    broken: Mutex<Option<Sender<Problem>>>,
}

impl Controller {
    /// Has a page of one directory made and made durable; returns the result of the sync.
    fn sync(&self) -> Report {
        let work = vec![Work::Links { page: 0 }];
        self.work.lock().unwrap().push_back(WorkReply {
            work,
            flush: true,
            ..WorkReply::default()
        });
        self.hear(|report| matches!(report, Report::Synced { .. } | Report::SyncFailed { .. }))
    }

    /// Has the first piece looked at again, as after a restart.
    fn recheck(&self) {
        self.recheck_of(Vec::new());
    }

    /// Has a piece with files of these digests looked at again, as after a restart.
    fn recheck_of(&self, digests: Vec<EntryDigest>) {
        let (piece, failures) = (PieceRef { page: 0, piece: 0 }, Vec::new());
        let work = Work::Recheck { piece, generation: 0, doubt: false, digests, failures };
        let reply = WorkReply { work: vec![work], ..WorkReply::default() };
        self.work.lock().unwrap().push_back(reply);
    }

    /// Waits for a report; forgets all.
    fn hear(&self, end: impl Fn(&Report) -> bool) -> Report {
        let heard = self.heard.lock().unwrap();
        let waited =
            self.news.wait_timeout_while(heard, PATIENCE, |heard| !heard.iter().any(&end)).unwrap();
        assert!(!waited.1.timed_out(), "it was never reported: {:?}", waited.0);
        std::mem::take(&mut *{ waited.0 }).into_iter().find(end).unwrap()
    }
}

impl TaskControl for Controller {
    fn want(&self, _: u64) -> WorkReply {
        self.work.lock().unwrap().pop_front().unwrap_or_default()
    }

    fn page(&self, _: u32) -> Result<TaskPage, Problem> {
        if let Some(page) = &*self.page.lock().unwrap() {
            return Ok(page.clone());
        }
        let mut builder = PageBuilder::new(TransferId([1; 16]), 0, Slicing::default());
        let (kind, name) = (EntryKind::Directory, b"made");
        builder.push(b"", &EntryDraft { name, kind, mode: 0o755, ..EntryDraft::default() });
        let page = Arc::new(builder.seal());
        Ok(TaskPage { page, digest: Digest([7; 32]), left: Arc::default() })
    }

    fn has_failed(&self, _: &[u8]) -> bool {
        false
    }

    fn report(&self, reports: Vec<Report>) {
        self.heard.lock().unwrap().extend(reports);
        self.news.notify_all();
    }

    fn broken(&self, problem: Problem) {
        match &*self.broken.lock().unwrap() {
            Some(expects) => expects.send(problem).unwrap(),
            None => panic!("{problem}"),
        }
    }
}

fn service(base: &std::path::Path) -> TargetService {
    let store = |name: &str, kind: StoreKind, read_only| StoreSpec {
        name: name.parse().unwrap(),
        kind,
        read_only,
        ephemeral: false,
        allow_privileged: false,
        io: IoMode::default(),
        mapped: false,
    };
    let stores = Stores::new([
        store("source", StoreKind::Mem("files=1,size=1".parse().unwrap()), true),
        store("target", StoreKind::Posix(base.to_owned()), false),
    ]);
    TargetService::new(Arc::new(stores), None, SocketOptions::default())
}

fn spec(transfer: u8) -> TaskSpec {
    TaskSpec {
        transfer: TransferId([transfer; 16]),
        store: "target".parse().unwrap(),
        root: PathText(format!("t{transfer}").into_bytes()),
        store_id: 0,
        mounts: Vec::new(),
        writer: WriterId::SOLE,
        epoch: 0,
        doubt: false,
        source: SourceAccess::Local {
            store: "source".parse().unwrap(),
            root: PathText(Vec::new()),
        },
        digest: DigestKind::Blake3,
        framing: Framing::Tls,
        cipher_suite: None,
        durability: Durability::Batch,
        digest_list: false,
        proves: false,
        preserve: Preserve::default(),
        lanes_max: 0,
        lanes: 0,
        networks: Vec::new(),
        limits: Limits::default(),
        update: UpdateOptions::default(),
        began: FileTime::default(),
        select: Selection::default(),
        remove_source: false,
        fence: Fence::default(),
        grant: None,
        account: None,
    }
}

/// Promise (a), A4: the failed sync of another task of the store consumes the kernel's error. Data
/// that this task wrote by then is not called durable, even if its own sync succeeds. Data that it
/// writes later is durable, as is that of a task which starts later.
#[test]
fn a4_anothers_failed_sync_is_ours_as_well() {
    let base = tempfile::tempdir().unwrap();
    let service = service(base.path());
    let (one, other) = (Arc::<Controller>::default(), Arc::<Controller>::default());
    let first = service.start(&spec(1), Arc::clone(&one) as _).unwrap();
    assert!(matches!(one.sync(), Report::Synced { .. }));
    service.target(&spec(2)).unwrap().note_failed_sync();
    let later = service.start(&spec(2), Arc::clone(&other) as _).unwrap();
    assert!(matches!(other.sync(), Report::Synced { .. }), "nothing of it was lost");
    assert!(matches!(one.sync(), Report::SyncFailed { .. }), "what it wrote may be");
    assert!(matches!(one.sync(), Report::Synced { .. }), "that is told once");
    assert!(matches!(other.sync(), Report::Synced { .. }), "and no new failure");
    first.stop(true);
    later.stop(true);
}

/// A4, A7: a task looks at its store before an earlier task there has ended, whose last sync may
/// still fail. The task's own report counts that failure, also in a store that was opened again.
#[test]
fn a4_a_task_knows_of_syncs_that_failed_before_it_began() {
    let base = tempfile::tempdir().unwrap();
    let service = service(base.path());
    let known = service.prepare(&spec(1)).unwrap();
    let control = Arc::<Controller>::default();
    let earlier = service.start(&spec(1), Arc::clone(&control) as _).unwrap();
    assert_eq!(earlier.incarnation().store, known.store);
    service.target(&spec(1)).unwrap().note_failed_sync();
    service.stores.reopen(&spec(1).store);
    let next = service.start(&spec(1), Arc::clone(&control) as _).unwrap();
    let failed = |task: &Arc<dyn Task>| task.incarnation().failed_syncs;
    assert_eq!((failed(&earlier), failed(&next)), (0, 1));
    assert_ne!(earlier.incarnation(), next.incarnation());
    next.stop(true);
}

/// Returns a page of the file `d/f`.
fn page_of_file(bytes: u64) -> TaskPage {
    let slicing = Slicing::with_extent_bytes(1 << 20);
    let mut builder = PageBuilder::new(TransferId([1; 16]), 0, slicing);
    builder
        .push(b"d", &EntryDraft { name: b"f", size: bytes, mode: 0o644, ..EntryDraft::default() });
    let page = Arc::new(builder.seal());
    TaskPage { page, digest: Digest([7; 32]), left: Arc::default() }
}

/// Reads the file `d/f` of [`spec`]'s first transfer again, which holds other bytes, if any.
fn prove(service: &TargetService, store_id: u64) -> Result<PageProof, Problem> {
    let (digest, form) = (Digest([9; 32]), DigestForm::Standard);
    let (page, progress) = (page_of_file(3), ProofProgress::default());
    let digests = [EntryDigest { entry: 0, form, digest, seen: None }];
    let request = ProofRequest {
        page: &page,
        digests: &digests,
        readback: true,
        also: &[],
        progress: &progress,
    };
    service.prove(&TaskSpec { store_id, ..spec(1) }, &request)
}

/// A5, promise (a): an absent or unreadable store proves nothing about its files: none counts as
/// damaged, and none is fetched again. A file that is missing in a present store is fetched again.
#[test]
fn a5_a_store_that_is_gone_damages_nothing() {
    let base = tempfile::tempdir().unwrap();
    let service = service(base.path());
    let store_id = service.prepare(&spec(1)).unwrap().store;
    assert_eq!(prove(&service, store_id).unwrap().damaged, [0], "it was removed");
    if let Some(_dead) = DeadMount::at(&base.path().join("t1/d")) {
        let problem = prove(&service, store_id).unwrap_err();
        assert_eq!((problem.exit, &problem.code), (Exit::Temporary, &ProblemCode::StoreOffline));
    }
    std::fs::remove_dir_all(base.path().join(".penstock-store-7q2mv0kd9j")).unwrap();
    let problem = prove(&service, store_id).unwrap_err();
    assert_eq!((problem.exit, &problem.code), (Exit::Temporary, &ProblemCode::StoreOffline));
}

/// A5: files that a transfer left in an absent store, or in a part of it that does not answer, do
/// not count as removed. They are removed when the store is back.
#[test]
fn a5_a_store_that_is_gone_is_not_clean() {
    let base = tempfile::tempdir().unwrap();
    let service = service(base.path());
    let store_id = service.prepare(&spec(1)).unwrap().store;
    let (spec, page) = (TaskSpec { store_id, ..spec(1) }, page_of_file(3));
    let directory = base.path().join("t1/d");
    std::fs::create_dir_all(&directory).unwrap();
    let name = temporary_of((spec.transfer, spec.writer), &page, 0, 1);
    let left = directory.join(String::from_utf8(name.to_vec()).unwrap());
    std::fs::write(&left, "half").unwrap();
    let clean = || service.clean(&spec, &mut std::iter::once(page.clone()), 1);
    let is_offline = || {
        let problem = clean().unwrap_err();
        assert_eq!((problem.exit, &problem.code), (Exit::Temporary, &ProblemCode::StoreOffline));
        assert!(left.exists());
    };
    let [own, aside] = [".penstock-store-7q2mv0kd9j", "aside"].map(|name| base.path().join(name));
    std::fs::rename(&own, &aside).unwrap();
    is_offline();
    std::fs::rename(&aside, &own).unwrap();
    if let Some(dead) = DeadMount::at(&directory) {
        assert_eq!(clean().unwrap_err().code, ProblemCode::StoreOffline);
        drop(dead);
    }
    clean().unwrap();
    assert!(!left.exists());
    clean().unwrap();
}

/// A peer whose first answer to each order to clean a page breaks off, so that it is asked again.
struct BrokenOff<'a> {
    service: &'a TargetService,
    /// For each removal of the marker, whether the store was to be synced before it.
    synced: Mutex<Vec<bool>>,
}

impl TargetPeer for BrokenOff<'_> {
    fn call(
        &self,
        request: TargetRequest<'_>,
        progress: &ProofProgress,
    ) -> Result<PeerReply, Problem> {
        match &request {
            TargetRequest::CleanPage { .. } => drop(self.service.call(request.clone(), progress)?),
            TargetRequest::CleanMarker { sync, .. } => self.synced.lock().unwrap().push(*sync),
            _ => {}
        }
        self.service.call(request, progress)
    }

    fn find_surplus(&self, _: &TaskSpec, _: SurplusQuery<'_>) -> Result<u64, Problem> {
        unreachable!("nothing is deleted")
    }

    fn delete(&self, _: &TaskSpec, _: DeleteOrder<'_>) -> Result<(), Problem> {
        unreachable!("nothing is deleted")
    }

    fn start(&self, _: &TaskSpec, _: Arc<dyn TaskControl>) -> Result<Arc<dyn Task>, Problem> {
        unreachable!("nothing is started")
    }
}

/// A5: the removal of temporary files is made durable, also where a peer was asked again and found
/// nothing the second time; without pages there is nothing to sync.
#[test]
fn a5_a_removal_that_was_asked_for_twice_is_synced() {
    let base = tempfile::tempdir().unwrap();
    let service = service(base.path());
    let store_id = service.prepare(&spec(1)).unwrap().store;
    let (spec, page) = (TaskSpec { store_id, ..spec(1) }, page_of_file(3));
    let directory = base.path().join("t1/d");
    std::fs::create_dir_all(&directory).unwrap();
    let name = temporary_of((spec.transfer, spec.writer), &page, 0, 1);
    let left = directory.join(String::from_utf8(name.to_vec()).unwrap());
    std::fs::write(&left, "half").unwrap();
    let peer = BrokenOff { service: &service, synced: Mutex::default() };
    peer.clean(&spec, &mut std::iter::once(page), 1).unwrap();
    assert!(!left.exists());
    peer.clean(&spec, &mut std::iter::empty(), 1).unwrap();
    assert_eq!(*peer.synced.lock().unwrap(), [true, false]);
}

/// A5: a store whose client died during a transfer is offline, and the transfer waits. The new
/// mount is noticed, whatever handles were open before.
#[test]
fn a5_a_dead_client_is_waited_for_and_opened_anew() {
    let base = tempfile::tempdir().unwrap();
    let [root, before, after] = ["store", "before", "after"].map(|name| base.path().join(name));
    std::fs::create_dir(&before).unwrap();
    std::fs::create_dir_all(after.join("d/e")).unwrap();
    std::os::unix::fs::symlink(&before, &root).unwrap();
    let service = service(&root);
    let kind = || service.root_kind(&spec(1).store, &PathText(b"d/e".to_vec()), None);
    assert_eq!(kind().unwrap(), None);
    let Some(_dead) = DeadMount::at(&before.join("d")) else { return };
    let problem = kind().unwrap_err();
    assert_eq!((problem.exit, &problem.code), (Exit::Temporary, &ProblemCode::StoreOffline));
    std::fs::remove_file(&root).unwrap();
    std::os::unix::fs::symlink(&after, &root).unwrap();
    assert_eq!(kind().unwrap(), Some(RootKind::Directory));
}

/// Promises (b), (c), A6, A9: a mostly written large file is not started again because of an error
/// when it is looked at after a restart: the piece is fetched again, and where the store is gone it
/// is looked at later.
#[test]
fn a6_an_error_loses_no_file_that_is_half_written() {
    let base = tempfile::tempdir().unwrap();
    let service = service(base.path());
    let control = Arc::<Controller>::default();
    *control.page.lock().unwrap() = Some(page_of_file(3 << 20));
    let task = service.start(&spec(1), Arc::clone(&control) as _).unwrap();
    let looked_at = || {
        control.recheck();
        control.hear(|report| matches!(report, Report::Lost { .. } | Report::Returned { .. }))
    };
    assert!(matches!(looked_at(), Report::Lost { .. }), "there is nothing of it");
    if let Some(_dead) = DeadMount::at(&base.path().join("t1/d")) {
        assert!(matches!(looked_at(), Report::Returned { .. }), "nobody can tell");
        std::fs::remove_dir_all(base.path().join(".penstock-store-7q2mv0kd9j")).unwrap();
        let (expects, broken) = channel();
        *control.broken.lock().unwrap() = Some(expects);
        control.recheck();
        assert_eq!(broken.recv_timeout(PATIENCE).unwrap().code, ProblemCode::StoreOffline);
    }
    task.stop(true);
    let left = control.heard.lock().unwrap();
    assert!(!left.iter().any(|report| matches!(report, Report::Lost { .. })), "{left:?}");
}

/// Promise (c), B1: after a restart, a small file counts as written under its temporary name, which
/// is that of the last attempt at it. An older file with its final name, size and time does not.
#[test]
fn c_only_a_file_of_the_last_attempt_counts_as_written() {
    let base = tempfile::tempdir().unwrap();
    let service = service(base.path());
    let control = Arc::<Controller>::default();
    let page = page_of_file(3);
    *control.page.lock().unwrap() = Some(page.clone());
    let task = service.start(&spec(1), Arc::clone(&control) as _).unwrap();
    let directory = base.path().join("t1/d");
    std::fs::create_dir_all(&directory).unwrap();
    let digest = DigestKind::Blake3.stride(3, 0, b"new");
    let digest = EntryDigest { entry: 0, form: DigestForm::Standard, digest, seen: None };
    let looked_at = || {
        control.recheck_of(vec![digest]);
        control.hear(|report| matches!(report, Report::Written { .. } | Report::Returned { .. }))
    };
    assert!(matches!(looked_at(), Report::Returned { .. }), "there is nothing of it");
    let older = directory.join("f");
    std::fs::write(&older, "old").unwrap();
    std::fs::set_permissions(&older, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::File::open(&older).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert!(matches!(looked_at(), Report::Returned { .. }), "it has other bytes");
    let name = temporary_of((spec(1).transfer, WriterId::SOLE), &page, 0, 0);
    std::fs::write(directory.join(OsStr::from_bytes(&name)), "new").unwrap();
    assert!(matches!(looked_at(), Report::Written { .. }));
    task.stop(true);
}

/// B1: a task leaves a marker until its transfer is cleaned. A task without a sync leaves none, so
/// that markers of failing transfers do not accumulate.
#[test]
fn b1_only_a_task_that_syncs_leaves_a_marker() {
    for durability in [Durability::Batch, Durability::None] {
        let base = tempfile::tempdir().unwrap();
        let service = service(base.path());
        let spec = |transfer| TaskSpec { durability, ..spec(transfer) };
        let (store_id, target) = (service.prepare(&spec(1)).unwrap().store, "target");
        let store = service.stores.target(&target.parse().unwrap(), None).unwrap();
        for transfer in [1, 1, 2] {
            let spec = TaskSpec { store_id, ..spec(transfer) };
            Ground::at(&store, &spec, &store.identity().unwrap()).unwrap();
        }
        let private = base.path().join(".penstock-store-7q2mv0kd9j");
        let names = std::fs::read_dir(private).unwrap().map(|entry| entry.unwrap().file_name());
        let markers = names.filter(|name| name.to_string_lossy().starts_with("marker-"));
        let expected = if durability == Durability::None { 0 } else { 2 };
        assert_eq!(markers.count(), expected, "{durability:?}");
    }
}
