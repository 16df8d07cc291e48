//! The program without its edges: messages in, orders and cells out.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use penstock_api::access::Right;
use penstock_api::rest::{Action, Event, TransferEvent, TransferSummary};
use penstock_api::transfer::Progress;
use penstock_exit::ExitCode;
use penstock_proto::id::TransferId;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::looks::Subject;
use super::model::{Model, Order, Overlay, Page};
use super::moment::Moment;
use super::update::{Answer, Message, Refusal, Stream};
use super::view;
use crate::terminal::input::Input;
use crate::terminal::theme::Theme;

/// 2026-11-26 12:00:00 UTC.
const NOON_MS: u64 = 1_795_694_400_000;

/// A model, and the time that passes for it.
struct World {
    model: Model,
    begun: Instant,
    ms: u64,
}

impl World {
    /// Returns a site with contact, for a caller who may do everything.
    fn new() -> Self {
        let rights: Vec<_> = Right::ALL.iter().map(|right| right.as_str()).collect();
        Self::of_caller(&json!({
            "user": "anna", "role": "operator", "via": "socket", "rights": rights, "grants": {},
        }))
    }

    fn of_caller(me: &Value) -> Self {
        let status = json!({
            "site": {"name": "hpc", "own": true, "fingerprint": "ab", "addresses": []},
            "peer": "dtn1", "version": "0.1.0", "listen": "127.0.0.1:7444", "pid": 7,
            "running": 0, "queued": 0,
        });
        let (status, me) = (of_json(&status), of_json(me));
        let model = Model::new(status, me, NOON_MS);
        let mut world = Self { model, begun: Instant::now(), ms: 0 };
        world.tell(Message::Stream(Stream::Open));
        world
    }

    fn now(&self) -> Moment {
        Moment { at: self.begun + Duration::from_millis(self.ms), ms: NOON_MS + self.ms }
    }

    fn tell(&mut self, message: Message) -> Vec<Order> {
        let now = self.now();
        self.model.handle(message, now)
    }

    /// Lets time pass; returns the subjects that are asked about.
    fn pass(&mut self, ms: u64) -> Vec<Subject> {
        self.ms += ms;
        let orders = self.model.handle_time(self.now());
        let subject = |order: &Order| match order {
            Order::Look(subject, _) => Some(*subject),
            _ => None,
        };
        orders.iter().filter_map(subject).collect()
    }

    fn answer(&mut self, subject: Subject, answer: Answer) {
        let asked_at = self.now().at;
        self.ms += 1;
        self.tell(Message::Answer { subject, asked_at, result: Ok(answer) });
    }

    fn list(&mut self, subject: Subject, list: &[TransferSummary]) {
        let list = list.to_vec();
        self.answer(subject, Answer::Transfers { list, is_complete: true });
    }

    fn event(&mut self, number: u8, state: &str, progress: Progress) {
        let event = TransferEvent {
            v: 1,
            id: id(number),
            state: of_json(&json!(state)),
            reason: String::new(),
            progress,
            durable_by: String::new(),
            exit: None,
            failures: Vec::new(),
        };
        self.tell(Message::Stream(Stream::Event(Box::new(Event::Status(event)))));
    }

    fn press(&mut self, code: KeyCode) -> Vec<Order> {
        self.tell(Message::Input(Input::Key(code.into())))
    }

    fn keys(&mut self, keys: &str) -> Vec<Order> {
        keys.chars().flat_map(|key| self.press(KeyCode::Char(key))).collect()
    }

    /// Returns the cells of a frame as text, without blanks at the ends of lines.
    fn painted(&mut self, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let (model, theme) = (&mut self.model, Theme::new(false, "C.UTF-8"));
        let mut scroll_max = 0;
        let paint = |frame: &mut ratatui::Frame<'_>| {
            scroll_max = view::paint(model, theme, frame.area(), frame.buffer_mut());
        };
        terminal.draw(paint).unwrap();
        model.scroll_max = scroll_max;
        let buffer = terminal.backend().buffer();
        let line = |y| {
            let cells = (0..width).map(|x| buffer[(x, y)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        };
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }
}

fn of_json<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn id(number: u8) -> TransferId {
    TransferId([number; 16])
}

/// A transfer from `lab` to this site in a state, with more fields.
fn transfer(number: u8, label: &str, state: &str, more: Value) -> TransferSummary {
    let mut value = json!({
        "id": id(number).to_string(), "label": label, "owner": "anna",
        "source": format!("lab:raw/run{number}"), "target": "hpc:scratch/",
        "direction": "in", "state": state, "created_at": "2026-11-26T11:50:00Z", "attempt": 1,
        "progress": {
            "files_found": 20164, "bytes_found": 0, "scan_complete": false, "files": 0, "bytes": 0,
            "bytes_durable": 0, "errors": 0, "rate_bits_per_s": 0.0, "seconds": 0.0,
        },
        "failures": {"count": 0}, "files_from_count": 0,
    });
    let fields = value.as_object_mut().unwrap();
    fields.extend(more.as_object().cloned().unwrap_or_default());
    of_json(&value)
}

fn waiting(code: &str, text: &str, on: &str) -> Value {
    json!({"waiting": {
        "code": code, "since": "2026-11-26T11:55:00Z", "text": text,
        "on": {"kind": "user", "name": on},
    }})
}

/// Figures of a transfer of 5 TiB that moves at a rate, after some seconds.
fn figures(seconds: u64, gbit_per_s: f64) -> Progress {
    let come = (gbit_per_s * 1e9 / 8.0 * seconds as f64) as u64;
    Progress {
        files_found: 20164,
        files: 8000 + seconds,
        bytes_found: 5 << 40,
        scan_complete: true,
        bytes_resumed: 3 << 40,
        bytes: (3 << 40) + come,
        bytes_verified: come,
        rate_bits_per_s: gbit_per_s * 1e9,
        seconds: seconds as f64,
        lanes: 8,
        limit: "the network or the source".to_owned(),
        ..Progress::default()
    }
}

/// A site with one transfer of each kind, of which one runs for a while.
fn busy() -> World {
    let mut world = World::new();
    world.pass(500);
    let running = [
        transfer(0x9f, "run 8", "running", json!({})),
        transfer(0x21, "", "running", json!({"created_at": "2026-11-26T11:40:00Z"})),
    ];
    world.list(Subject::Running, &running);
    let queued = waiting("turn", "its turn: 3 before it (lab)", "lab");
    let paused = waiting("user", "a user to resume it (ben)", "ben");
    let waiting =
        [transfer(0xab, "run 9", "queued", queued), transfer(0xac, "old maps", "paused", paused)];
    world.list(Subject::Waiting, &waiting);
    let failed = json!({
        "reason": "3 of 20164 items may not be read at lab",
        "ended_at": "2026-11-26T11:58:00Z", "failures": {"count": 3},
    });
    let failed = transfer(0x31, "run 7", "failed", failed);
    world.list(Subject::Attention, std::slice::from_ref(&failed));
    let done = json!({"ended_at": "2026-11-26T11:30:00Z"});
    let mut done = transfer(0x30, "run 6", "done", done);
    done.progress.bytes = 1 << 40;
    world.list(Subject::Ended, &[failed, done]);
    let health = json!({
        "level": "warning", "cluster": null,
        "findings": [
            {"code": "store", "level": "bad", "peer": "dtn1", "what": "store `raw` is offline",
             "why": "", "action": "mount it"},
            {"code": "clock", "level": "ok", "what": "the clock is right"},
        ],
        "peers": {"site": "hpc", "peers": [{
            "peer": "dtn1", "own": true, "presence": "up", "since": NOON_MS / 1000 - 3600,
            "addresses": [], "version": "0.1.0", "controller_since": NOON_MS / 1000 - 3600,
            "stores": [{"store": "scratch", "identity": "", "is": "alone"}], "draining": null,
            "load": {"peer": "dtn1", "leads": true, "running": 2, "queued": 1, "lanes_served": 0,
                     "tasks": [], "host_load": 1.5, "clock_ms": NOON_MS},
            "clock_ahead_ms": null, "trouble": "",
        }]},
    });
    world.answer(Subject::Health, Answer::Health(Box::new(of_json(&health))));
    for second in 0..20 {
        world.event(0x9f, "running", figures(second, 93.1));
        world.pass(1000);
    }
    world
}

/// Promise: the overview of a busy site has what needs attention first, then what runs, waits and
/// has ended, each with its figures and its reason, in 80 columns.
#[test]
fn the_overview_shows_a_busy_site() {
    let mut world = busy();
    assert_eq!(format!("\n{}", world.painted(80, 24)), OVERVIEW);
}

const OVERVIEW: &str = "
 hpc  peer dtn1 · anna (operator)                          ● live  12:00:20 UTC
 in   93.10 Gbit/s                                        ▁████████████████████
 out     not known
── NEEDS ATTENTION 2 ───────────────────────────────────────────────────────────
  ✖ dtn1: store `raw` is offline (mount it)
▸ ✖ run 7: failed: 3 of 20164 items may not be read at lab
── RUNNING 2 newest first ──────────────────────────────────────────────────────
  9f9f9f9f run 8                  ████████░░░░░░  64 %   93.10 Gbit/s   2:49 min
           lab:raw/run159 → hpc:scratch/ · limited by the network or the source
  21212121 lab:raw/run33          ░░░░░░░░░░░░░░           0.00 bit/s   scanning
           → hpc:scratch/
── WAITING 2 ───────────────────────────────────────────────────────────────────
  abababab run 9                 waits for its turn: 3 before it (lab)
  acacacac old maps              paused by ben at 11:55
── ENDED ───────────────────────────────────────────────────────────────────────
  31313131 run 7                 ✖ failed      3 of 20164 items may…  2 min ago
  30303030 run 6                 ● done          1.0 TiB  lab:raw/…  30 min ago
── PEERS 1 ─────────────────────────────────────────────────────────────────────
  ● dtn1  up 60 min, controller 60 min · leads 2




 q quit  ? keys  Enter open  p pause  c cancel  / filter  s sort  Tab peers";

/// Promise: a wide terminal shows more of each transfer, a tall one higher charts, and no size is
/// too small for a frame.
#[test]
fn any_size_is_painted() {
    let mut world = busy();
    let wide = world.painted(200, 60);
    assert!(wide.contains("anna") && wide.contains("max 93.10 Gbit/s"), "{wide}");
    assert!(wide.lines().any(|line| line.contains("run 8") && line.contains("of 5.0 TiB")));
    world.keys("c");
    for page in ["", "?", "\t"] {
        world.keys(page);
        for (width, height) in (0..60).flat_map(|n| [(n, 24), (80, n), (n, n), (3 * n, n / 2)]) {
            let text = world.painted(width, height);
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)));
        }
        world.press(KeyCode::Esc);
    }
    world.model.page = Page::Overview;
    world.press(KeyCode::Enter);
    assert!(world.painted(80, 24).contains("asking for"));
}

/// Promise: rates are steady, the time left follows from them, and the histories have a gap while
/// there is no contact.
#[test]
fn lost_contact_is_shown_and_heals() {
    let mut world = busy();
    let (before, live) = (world.model.rates_in.seconds(), world.painted(80, 24));
    assert!(live.contains("● live") && live.contains("93.10 Gbit/s"), "{live}");
    let why = "connection refused".to_owned();
    world.tell(Message::Stream(Stream::Lost { why, retry_in_ms: 5000 }));
    assert!(world.pass(2000).is_empty(), "nobody is asked");
    let lost = world.painted(80, 24);
    for words in ["✖ NO CONTACT", "since 12:00:20: connection refused", "Next try in 3 s"] {
        assert!(lost.contains(words), "`{words}` in {lost}");
    }
    assert!(lost.contains("not known"), "a rate of then is no rate of now: {lost}");
    assert!(world.keys("p").is_empty());
    assert!(world.painted(80, 24).contains("nothing can be changed"));
    world.pass(1000);
    Subject::ALL.into_iter().for_each(|subject| world.model.looks.answered(subject));
    world.tell(Message::Stream(Stream::Open));
    let healed = world.painted(80, 24);
    assert!(healed.contains("contact again after 3 s") && healed.contains("● live"), "{healed}");
    assert_eq!(world.model.rates_in.seconds(), before + 3);
    assert!(world.model.rates_in.columns(before + 3).ends_with(&[None; 3]));
    assert!(world.pass(1000).contains(&Subject::Running), "all is asked for anew");
}

/// Promise: an event of a transfer that is not known, another state, or lost events lead to new
/// lists; mere progress does not.
#[test]
fn lists_follow_events() {
    let mut world = busy();
    let all = Subject::ALL.into_iter().filter(|it| !matches!(it, Subject::Detail));
    let quiet = |world: &mut World| {
        for subject in all.clone() {
            world.model.looks.answered(subject);
        }
        let asked = world.pass(1500);
        asked.contains(&Subject::Running)
    };
    quiet(&mut world);
    world.event(0x9f, "running", figures(30, 93.1));
    assert!(!quiet(&mut world));
    world.event(0x55, "queued", Progress::default());
    assert!(quiet(&mut world));
    world.event(0x9f, "done", figures(31, 93.1));
    assert!(quiet(&mut world));
    world.tell(Message::Stream(Stream::Event(Box::new(Event::Reset))));
    assert!(quiet(&mut world));
    assert!(!quiet(&mut world));
    // It has ended, though no list has said so yet.
    assert!(world.painted(80, 30).contains("run 8                 ● done"));
}

/// Promise: the rate out is the mean of what the peer has sent in the last seconds, and begins anew
/// with a daemon that counts from 0.
#[test]
fn the_rate_out_is_a_mean() {
    let mut world = World::new();
    for bytes in [0, 0, 5_000_000, 5_000_000, 10_000_000] {
        world.answer(Subject::Sent, Answer::Sent(bytes));
        world.pass(1999);
    }
    assert!(world.painted(80, 24).contains("out  10.00 Mbit/s"), "{}", world.painted(80, 24));
    world.answer(Subject::Sent, Answer::Sent(0));
    world.pass(1999);
    world.answer(Subject::Sent, Answer::Sent(500_000));
    assert!(world.painted(80, 24).contains("out   2.00 Mbit/s"), "{}", world.painted(80, 24));
}

/// Promise: a list that was asked for before an event does not undo what the event said.
#[test]
fn events_count_more_than_older_lists() {
    let mut world = busy();
    let asked_at = world.now().at;
    world.ms += 10;
    world.event(0x9f, "paused", figures(30, 0.0));
    let list = vec![transfer(0x9f, "run 8", "running", json!({}))];
    let answer = Answer::Transfers { list, is_complete: true };
    world.tell(Message::Answer { subject: Subject::Running, asked_at, result: Ok(answer) });
    let state = |world: &World, number| world.model.rows.get(id(number)).map(|row| row.runs());
    assert_eq!(state(&world, 0x9f), Some(false));
    assert_eq!(state(&world, 0x21), None, "a complete list lacks it: it runs no more");
}

/// Promise: keys act on the transfer under the cursor, which stays on it when the lists change; a
/// cancel needs a clear yes; the reason is told where a key can do nothing.
#[test]
fn keys_steer_the_chosen_transfer() {
    let mut world = busy();
    // Attention first: the failed one.
    assert_eq!(world.keys("r"), [Order::Act(id(0x31), Action::Retry)]);
    assert!(world.keys("p").is_empty());
    assert!(world.painted(80, 24).contains("has ended: failed"));
    assert_eq!(world.keys("jp"), [Order::Act(id(0x9f), Action::Pause)]);
    assert!(world.keys("c").is_empty());
    assert_eq!(world.model.overlay, Some(Overlay::Cancel(id(0x9f))));
    assert!(world.painted(80, 24).contains("Cancel run 8 (9f9f9f9f)?"));
    assert!(world.press(KeyCode::Enter).is_empty(), "no clear yes");
    assert!(world.keys("cn").is_empty());
    assert_eq!(world.keys("cy"), [Order::Act(id(0x9f), Action::Cancel)]);
    // It is paused by somebody: the cursor goes with it.
    world.event(0x9f, "paused", figures(40, 0.0));
    assert_eq!(world.keys("p"), [Order::Act(id(0x9f), Action::Resume)]);
    assert_eq!(world.keys("gG"), []);
    assert_eq!(world.model.chosen_id(), Some(id(0x30)));
    let refused = Err("the transfer has ended".to_owned());
    world.tell(Message::Acted { id: id(0x30), action: Action::Cancel, result: refused });
    assert!(world.painted(80, 24).contains("cannot cancel 30303030: the transfer has ended"));
    world.pass(9000);
    assert!(!world.painted(80, 24).contains("cannot cancel"), "a notice goes by itself");
}

/// Promise: a user without a right is told so, and is not asked for what it may not see.
#[test]
fn rights_are_respected() {
    let mut world = World::of_caller(&json!({
        "user": "vera", "role": "viewer", "via": "token", "grants": {},
        "rights": ["own", "see-site", "see-transfers"],
    }));
    let asked = world.pass(500);
    assert!(!asked.contains(&Subject::Queue) && !asked.contains(&Subject::Sent), "{asked:?}");
    world.list(Subject::Running, &[transfer(1, "run 1", "running", json!({}))]);
    assert!(world.keys("p").is_empty());
    let text = world.painted(80, 24);
    assert!(text.contains("vera may not steer") && text.contains("vera (viewer)"), "{text}");
    assert!(text.contains("out     not known"), "{text}");
    let forbidden = Refusal { why: "no".to_owned(), is_forbidden: true };
    let asked_at = world.now().at;
    let subject = Subject::Health;
    world.tell(Message::Answer { subject, asked_at, result: Err(forbidden) });
    assert!(!world.pass(60_000).contains(&Subject::Health));
    assert!(!world.painted(80, 24).contains("cannot"));
}

/// Promise: a question without an answer is no silence: the page says what could not be shown.
#[test]
fn a_failed_question_is_shown() {
    let mut world = busy();
    let refusal = Refusal { why: "the site has no controller".to_owned(), is_forbidden: false };
    let asked_at = world.now().at;
    let (subject, result) = (Subject::Queue, Err(refusal));
    world.tell(Message::Answer { subject, asked_at, result });
    let text = world.painted(80, 30);
    assert!(text.contains("▲ cannot show the queue: the site has no controller"), "{text}");
}

/// Promise: a filter chooses as it is typed, stays with Enter and goes with Esc.
#[test]
fn a_filter_chooses() {
    let mut world = busy();
    world.keys("/RUN 9");
    let text = world.painted(80, 24);
    assert!(text.contains(" filter: RUN 9") && text.contains("RUNNING 0"), "{text}");
    assert!(text.contains("run 9") && !text.contains("old maps"), "{text}");
    world.press(KeyCode::Enter);
    assert!(world.keys("p").contains(&Order::Act(id(0xab), Action::Pause)));
    assert!(world.painted(80, 24).contains(" only with `RUN 9`: Esc shows all"));
    world.press(KeyCode::Esc);
    assert!(world.painted(80, 24).contains("old maps"));
    world.keys("/q");
    assert!(world.model.filter_edit.is_some(), "a letter is no key while a text is typed");
}

/// Promise: running transfers are sorted by what the user wants.
#[test]
fn sorting_goes_through_all_orders() {
    let mut world = busy();
    let first = |world: &mut World| {
        let text = world.painted(80, 24);
        let mut lines = text.lines().skip_while(|line| !line.contains("RUNNING"));
        let head = lines.next().unwrap().to_owned();
        let id = lines.next().unwrap()[2..10].to_owned();
        (head.split('─').nth(2).unwrap().trim().to_owned(), id)
    };
    world.event(0x21, "running", figures(1, 1.0));
    world.pass(1000);
    world.event(0x21, "running", figures(2, 1.0));
    let newest = first(&mut world);
    assert_eq!(newest, ("RUNNING 2 newest first".to_owned(), "9f9f9f9f".to_owned()));
    world.keys("s");
    assert_eq!(first(&mut world).0, "RUNNING 2 by rate");
    world.keys("ss");
    assert_eq!(first(&mut world).0, "RUNNING 2 by share done");
    world.keys("s");
    assert_eq!(first(&mut world), newest);
}

/// Promise: a transfer that is opened shows its figures, the history of its rate, its failures and
/// events; keys steer it, and Esc leads back.
#[test]
fn a_transfer_is_opened() {
    let mut world = busy();
    world.keys("j");
    world.press(KeyCode::Enter);
    world.event(0x9f, "running", Progress { errors: 3, ..figures(20, 93.1) });
    assert!(world.pass(1000).contains(&Subject::Detail));
    let mut view = serde_json::to_value(transfer(0x9f, "run 8", "running", json!({}))).unwrap();
    let fields = view.as_object_mut().unwrap();
    fields.insert("progress".to_owned(), serde_json::to_value(figures(20, 93.1)).unwrap());
    fields.insert("limits".to_owned(), json!({}));
    fields.insert("options".to_owned(), json!({}));
    fields.insert(
        "failures".to_owned(),
        json!({"count": 3, "first": [
            {"path": "run8/a", "code": "EACCES", "message": "permission denied"},
        ]}),
    );
    fields.insert("durable_by".to_owned(), json!("syncfs"));
    let events = json!([{
        "at": "2026-11-26T11:59:00Z", "peer": "dtn1", "kind": "path-back",
        "subject": "10.0.0.1", "text": "the path carries again",
    }]);
    let (view, events) = (Box::new(of_json(&view)), of_json(&events));
    world.answer(Subject::Detail, Answer::Detail { view, events });
    let text = world.painted(80, 30);
    for words in [
        " RUNNING  9f9f9f9f  run 8  of anna",
        "lab:raw/run159 → hpc:scratch/",
        "93.10 Gbit/s, ",
        "limited by  the network or the source",
        "run8/a: permission denied",
        "11:59:00 dtn1 path-back: the path carries again",
    ] {
        assert!(text.contains(words), "`{words}` in {text}");
    }
    assert_eq!(world.keys("p"), [Order::Act(id(0x9f), Action::Pause)]);
    world.painted(80, 10);
    world.keys("jjj");
    assert_eq!(world.model.scroll, 3);
    world.keys("GG");
    assert_eq!(world.model.scroll, world.model.scroll_max);
    world.press(KeyCode::Esc);
    assert_eq!((world.model.page, world.model.scroll), (Page::Overview, 0));
}

/// Promise: q ends with success, Ctrl-C and signals as interrupted; Ctrl-Z stops the job.
#[test]
fn the_end_is_told_apart() {
    let mut world = World::new();
    let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
    let mut input = |input| world.tell(Message::Input(input));
    assert_eq!(input(Input::Key(control('c'))), [Order::Quit(ExitCode::Interrupted)]);
    assert_eq!(input(Input::Ended), [Order::Quit(ExitCode::Interrupted)]);
    assert_eq!(input(Input::Key(control('z'))), [Order::Suspend]);
    assert_eq!(input(Input::Continued), [Order::Resume]);
    assert_eq!(world.keys("q"), [Order::Quit(ExitCode::Done)]);
    assert_eq!(world.tell(Message::Broken), [Order::Quit(ExitCode::Unclassified)]);
}
