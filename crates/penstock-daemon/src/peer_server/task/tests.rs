use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use penstock_api::limits::Share;
use penstock_proto::network::DataAddress;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Work;

/// The controller's side of a conversation, by hand.
struct Controller {
    session: Session,
    hosted: Arc<Hosted>,
    connection: u64,
}

fn task() -> Controller {
    let hosted = Hosted {
        number: 1,
        epoch: 1,
        transfer: TransferId([1; 16]),
        grant: Duration::from_secs(60),
        talk: Mutex::default(),
        changed: Condvar::new(),
        output: Notify::new(),
        task: Mutex::default(),
    };
    let mut controller =
        Controller { session: Session::default(), hosted: Arc::new(hosted), connection: 0 };
    controller.connect();
    controller
}

impl Controller {
    fn connect(&mut self) {
        let (connection, heard) = self.hosted.connect(self.session.heard()).unwrap();
        self.session.connect(heard).unwrap();
        self.connection = connection;
    }

    /// Returns the messages that the task sends now.
    fn hear(&mut self) -> Vec<PeerMessage> {
        let bytes = self.hosted.output(self.connection, true).unwrap().unwrap_or_default();
        let messages = self.session.handle_input(&bytes).unwrap();
        messages.iter().map(|message| PeerMessage::decode(message).unwrap()).collect()
    }

    fn say(&mut self, said: &ControllerMessage) {
        self.session.push(said.encode());
        let bytes = self.session.poll_output(true).unwrap();
        assert_eq!(self.hosted.input(self.connection, &bytes).unwrap(), None);
    }
}

fn reply() -> WorkReply {
    let piece = PieceRef { page: 1, piece: 2 };
    let fetch = Work::Fetch { piece, generation: 0, fresh: true };
    WorkReply { work: vec![fetch], ..WorkReply::default() }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Task for Woken {
    fn figures(&self) -> TaskFigures {
        TaskFigures::default()
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation::default()
    }

    fn wake(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn doubt_is_over(&self) {}

    fn set_share(&self, _: &Share) {}

    fn set_source_peers(&self, _: &[DataAddress]) {}

    fn stop(&self, _: bool) {}
}

/// Promise (f): work that arrives after the wait for it is handled at once. An answer without work
/// wakes no thread.
#[test]
fn f_late_work_wakes_the_task() {
    let mut controller = task();
    let hosted = Arc::clone(&controller.hosted);
    let woken = Arc::<Woken>::default();
    hosted.set_task(Arc::clone(&woken) as _);
    assert_eq!(hosted.want(5), WorkReply::default());
    controller.say(&ControllerMessage::Work { ticket: 1, reply: WorkReply::default() });
    assert_eq!(hosted.want(5), WorkReply::default());
    assert_eq!(woken.0.load(Ordering::Acquire), 0);
    controller.say(&ControllerMessage::Work { ticket: 2, reply: reply() });
    assert_eq!(woken.0.load(Ordering::Acquire), 1);
    assert_eq!(hosted.want(5), reply());
}

/// A7: reports and questions that a broken connection has lost are sent again over the next one,
/// once and in order, and work that was handed out once arrives once.
#[test]
fn a7_what_a_connection_swallowed_is_said_again() {
    let mut controller = task();
    let hosted = Arc::clone(&controller.hosted);
    let report = |page| Report::Lost { page, entry: 0, generation: 0 };
    hosted.report(vec![report(1)]);
    assert_eq!(controller.hear(), [PeerMessage::Reports(vec![report(1)])]);
    hosted.report(vec![report(2)]);
    assert_eq!(hosted.want(5), WorkReply::default(), "there is no answer yet");
    // The bytes that are sent now never arrive.
    assert!(hosted.output(controller.connection, false).unwrap().is_some());
    let old = controller.connection;
    controller.connect();
    assert!(hosted.output(old, true).is_err(), "an older connection carries nothing");
    let said = controller.hear();
    assert_eq!(
        said,
        [PeerMessage::Reports(vec![report(2)]), PeerMessage::Want { ticket: 1, bytes: 5 }]
    );
    controller.say(&ControllerMessage::Work { ticket: 1, reply: reply() });
    assert_eq!(hosted.want(0), reply());
    assert_eq!(hosted.want(0), WorkReply::default());
}

/// Promise (f): a question to a silent controller returns in the end; a task that left the run gets
/// an answer at once.
#[test]
fn f_no_question_waits_for_ever() {
    let mut controller = task();
    let hosted = Arc::clone(&controller.hosted);
    hosted.disconnect(controller.connection);
    assert_eq!(hosted.alive(), LeaseStatus::Unheard);
    controller.connect();
    let Some(PeerMessage::Alive { ticket }) = controller.hear().pop() else { panic!("it asks") };
    controller.say(&ControllerMessage::Alive { ticket, standing: LeaseStatus::Granted });
    hosted.abandon();
    assert_eq!(hosted.alive(), LeaseStatus::Over);
    assert_eq!(hosted.want(7), WorkReply::default());
    assert_eq!(hosted.page(3).unwrap_err().code, ProblemCode::PeerPage);
    assert!(hosted.has_failed(b"a"), "what cannot be asked may have failed (B6)");
}

/// Promise: if nothing has failed, one question is enough for a million hard links.
#[test]
fn b6_one_question_is_enough_where_nothing_has_failed() {
    let mut controller = task();
    let hosted = Arc::clone(&controller.hosted);
    let asking = Arc::clone(&hosted);
    let asked = std::thread::spawn(move || asking.has_failed(b"a"));
    let ticket = loop {
        match controller.hear().pop() {
            Some(PeerMessage::HasFailed { ticket, .. }) => break ticket,
            _ => std::thread::yield_now(),
        }
    };
    controller.say(&ControllerMessage::HasFailed { ticket, failed: false, any: false });
    assert!(!asked.join().unwrap() && !hosted.has_failed(b"b"));
    assert_eq!(controller.hear(), []);
}

/// B4, A7: once another controller leads, the old one directs nothing after it wakes: its messages
/// over its connection are ignored. The task gets no answers, and no order to end.
#[test]
fn b4_a_controller_that_leads_no_more_directs_nothing() {
    let mut controller = task();
    let hosted = Arc::clone(&controller.hosted);
    assert_eq!(hosted.want(5), WorkReply::default());
    assert_eq!(controller.hear(), [PeerMessage::Want { ticket: 1, bytes: 5 }]);
    hosted.detach();
    controller.say(&ControllerMessage::Work { ticket: 1, reply: reply() });
    controller.say(&ControllerMessage::Stop { discard: true });
    assert!(hosted.output(controller.connection, true).is_err());
    assert_eq!(hosted.want(5), WorkReply::default());
    assert_eq!(hosted.alive(), LeaseStatus::Unheard, "its grant runs on, and is not renewed");
    assert_eq!(hosted.page(3).unwrap_err().code, ProblemCode::PeerPage);
    assert!(hosted.is_detached() && !hosted.is_stopping() && !hosted.has_ended());
}

/// A7: the writes of an earlier task are reported in messages of a bounded size, whose number is
/// sent when the conversation opens.
#[test]
fn a7_what_was_written_before_is_told_in_parts() {
    let mut controller = task();
    let report = |page| Report::Written {
        piece: PieceRef { page, piece: 0 },
        generation: 0,
        epoch: 1,
        digests: Vec::new(),
        failures: Vec::new(),
        fetched: true,
    };
    let reports: Vec<Report> = (0..ADOPTED_BATCH as u32 + 1).map(report).collect();
    let adopted = Adopted { epoch: 3, granted: true, reports: reports.clone() };
    controller.hosted.tell_adopted(adopted);
    let mut said = controller.hear();
    said.append(&mut controller.hear());
    assert_eq!((controller.hosted.adopted(), said.len()), (2, 2));
    let told = said.into_iter().flat_map(|said| match said {
        PeerMessage::Adopted(Adopted { epoch: 3, granted: true, reports }) => reports,
        other => panic!("{other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), reports);
}
