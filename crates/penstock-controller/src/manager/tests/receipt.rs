//! Receipts whose source cannot sign in that moment.

use penstock_api::fence::{Fence, not_controller};
use penstock_api::problem::ProblemCode;
use penstock_api::receipt::{Receipt, ReceiptFacts};

use super::*;
use crate::runner::RunFiles;

/// Brings a transfer to its end, which asks for a receipt.
fn end_with_receipt(world: &World) {
    let mut request = request(1, "lab:raw/a", "hpc:s/1");
    request.options.proof.receipt = true;
    world.manager.submit(&request, &Caller::local()).unwrap();
    let (input, end) = world.call();
    std::fs::create_dir_all(&input.journal).unwrap();
    let facts = serde_json::to_vec(&ReceiptFacts::default()).unwrap();
    std::fs::write(RunFiles::own(&input.journal, 0).facts, facts).unwrap();
    end.send(RunOutcome::Done).unwrap();
}

/// Returns the roles that signed the receipt.
fn signers(world: &World) -> Vec<Role> {
    let mut text = Vec::new();
    let id = TransferId([1; 16]);
    let mut file = world.manager.document(id, Document::Receipt, &Caller::local()).unwrap();
    std::io::Read::read_to_end(&mut file, &mut text).unwrap();
    let receipt: Receipt = serde_json::from_slice(&text).unwrap();
    receipt.signatures.iter().map(|signature| signature.role).collect()
}

/// Promise: a source that loses its controller in the moment of the signature signs under the next
/// one. A source that refuses is not asked again.
#[test]
fn a_source_that_changes_its_controller_still_signs() {
    let world = World::new(1);
    let silent = Problem::new(ProblemCode::SiteUnreachable, "it cannot be reached");
    world.sites.says.lock().unwrap().extend([not_controller(), silent]);
    end_with_receipt(&world);
    world.wait(1, TransferState::Done);
    assert_eq!(signers(&world), [Role::Target, Role::Source]);
    let world = World::new(1);
    let refused = Problem::new(ProblemCode::ReceiptDiffers, "it names another manifest");
    world.sites.says.lock().unwrap().extend([refused, not_controller()]);
    end_with_receipt(&world);
    world.wait(1, TransferState::Done);
    assert_eq!(signers(&world), [Role::Target]);
    assert_eq!(world.sites.says.lock().unwrap().len(), 1, "it was asked once");
}

/// Promise: a daemon that ends while it asks for the signature writes no receipt without it: the
/// transfer is not at its end, and the next daemon makes it.
#[test]
fn a_daemon_that_ends_leaves_the_receipt_to_the_next() {
    let mut world = World::new(1);
    world.sites.says.lock().unwrap().extend((0..1000).map(|_| not_controller()));
    end_with_receipt(&world);
    world.restart(Vec::new(), true);
    let view = world.manager.show(TransferId([1; 16]), &Caller::local()).unwrap();
    assert!(!view.state.is_ended(), "{view:?}");
    world.sites.says.lock().unwrap().clear();
    world.call().1.send(RunOutcome::Done).unwrap();
    world.wait(1, TransferState::Done);
    assert_eq!(signers(&world), [Role::Target, Role::Source]);
}

/// Promise: a journal that cannot store the receipt now does not lose it: the transfer ends when
/// the journal can.
#[test]
fn a_receipt_that_cannot_be_written_now_is_made_later() {
    let world = World::new(1);
    let receipts = world.directory.path().join("receipts");
    std::fs::write(&receipts, "in the way of the directory").unwrap();
    end_with_receipt(&world);
    let (_, end) = world.call();
    std::fs::remove_file(&receipts).unwrap();
    end.send(RunOutcome::Done).unwrap();
    world.wait(1, TransferState::Done);
    assert_eq!(signers(&world), [Role::Target, Role::Source]);
}

/// Promise: a temporary error at the source does not count as a difference from the served data.
/// That holds above all for a change of its controller.
#[test]
fn b4_what_may_pass_is_no_difference() {
    let peer = FakePeer::default();
    let body = ReceiptBody {
        version: 1,
        program: String::new(),
        id: TransferId([1; 16]),
        state: TransferState::Done,
        exit: Exit::Done,
        source: "lab:raw/a".parse().unwrap(),
        target: "hpc:s/1".parse().unwrap(),
        root: PathText::default(),
        options: serde_json::to_value(TransferOptions::default()).unwrap(),
        submitted: 1,
        ended: 2,
        milliseconds: 1,
        durable_by: String::new(),
        facts: ReceiptFacts::default(),
        failures: Vec::new(),
        withheld: Default::default(),
    };
    let check = |fence: &Fence| check_as_source(&peer, fence, &body, None).unwrap_err();
    let (leads, deposed) = (Fence::default(), Fence::new(7, Arc::new(|| false)));
    assert_eq!(check(&deposed).code, ProblemCode::NotController);
    let early = check(&leads);
    assert_eq!((&early.code, early.exit), (&ProblemCode::ScanIncomplete, Exit::Temporary));
    let offline = Problem::new(ProblemCode::StoreOffline, "store `raw` is offline");
    peer.says.lock().unwrap().push_back(offline.clone());
    assert_eq!(check(&leads), offline);
    let other = Problem::new(ProblemCode::ScanKnown, "it is another data set");
    peer.says.lock().unwrap().push_back(other);
    assert_eq!(check(&leads).code, ProblemCode::ReceiptDiffers);
}
