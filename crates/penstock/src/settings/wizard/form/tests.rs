//! The form, key by key.

use std::path::Path;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use penstock_exit::{ExitCode, Failure};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::host::Host;
use super::super::questions::{Answers, Question, questions};
use super::model::{Form, Order, Review};
use super::view;
use crate::terminal::input::Input;
use crate::terminal::theme::Theme;

fn press(form: &mut Form<'_>, code: KeyCode) -> Option<Order> {
    form.handle(Input::Key(code.into()))
}

fn control(form: &mut Form<'_>, key: char) -> Option<Order> {
    form.handle(Input::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL)))
}

/// Types an answer in place of what is there.
fn answer(form: &mut Form<'_>, text: &str) {
    control(form, 'e');
    control(form, 'u');
    text.chars().for_each(|c| assert_eq!(press(form, KeyCode::Char(c)), None));
}

fn painted(form: &Form<'_>, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    view::paint(form, Theme::new(false, "C.UTF-8"), area, &mut buffer);
    let line = |y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

fn host() -> Host {
    Host { name: "dtn1".parse().ok(), cpus: 8, ..Host::default() }
}

fn form<'a>(questions: &'a [Question], given: &Answers) -> Form<'a> {
    Form::new(Path::new("/etc/penstock/penstock.toml"), questions, given, false)
}

/// Promise: a screen has the questions of one subject, with their defaults, the help of the one
/// that is answered, and the keys.
#[test]
fn a_screen_has_a_subject() {
    let all = questions(&host(), None);
    let mut form = form(&all, &Answers::new());
    assert_eq!(
        painted(&form, 72, 16),
        " Configuration  /etc/penstock/penstock.toml
 1 Site   2 Network   3 Stores   4 HTTPS API   5 Daemon   6 Review
────────────────────────────────────────────────────────────────────────

  name of the site
  ▸ dtn1
    A name that other sites know it by: a-z, 0-9, `-`, `_`

  name of this host within the site
    dtn1





 Enter next  Esc former screen  Ctrl-C leave  Ctrl-R default"
    );
    answer(&mut form, "Lab");
    assert_eq!(press(&mut form, KeyCode::Enter), None);
    let text = painted(&form, 90, 16);
    assert!(text.contains("  ▸ Lab\n    ✖ `Lab` is not a name"), "{text}");
    assert!(text.contains("Default: dtn1"), "{text}");
}

/// Promise: a wrong answer holds its screen until it is right, and is checked while it is mended;
/// an empty answer is the default; Esc goes back to the screen before, with its answers.
#[test]
fn only_sound_answers_go_on() {
    let all = questions(&host(), None);
    let mut form = form(&all, &Answers::new());
    answer(&mut form, "Lab");
    press(&mut form, KeyCode::Tab);
    assert_eq!(form.focus, 1, "another field may be answered first");
    press(&mut form, KeyCode::Enter);
    assert_eq!((form.screen, form.focus), (0, 0), "the first that is wrong");
    press(&mut form, KeyCode::Home);
    press(&mut form, KeyCode::Delete);
    assert!(form.fields[0].fault.is_none(), "`ab` is a name");
    answer(&mut form, "");
    press(&mut form, KeyCode::PageDown);
    assert_eq!((form.screen, form.answers()["site"].as_str()), (1, "dtn1"));
    answer(&mut form, "10.0.0.1:7444");
    press(&mut form, KeyCode::Esc);
    press(&mut form, KeyCode::PageDown);
    assert_eq!(form.answers()["listen"], "10.0.0.1:7444");
    control(&mut form, 'r');
    assert_eq!(form.answers()["listen"], "0.0.0.0:7444");
    press(&mut form, KeyCode::BackTab);
    assert_eq!(form.screen, 0);
}

/// Promise: nothing is written before the user has seen what would be, and agreed; what a daemon
/// would not start with cannot be agreed to.
#[test]
fn consent_comes_last() {
    let all = questions(&host(), None);
    let given = Answers::from([("site", "lab".to_owned()), ("peer", "h1".to_owned())]);
    let mut form = form(&all, &given);
    assert_eq!(form.groups[0].title(), "Network", "what is answered is not asked for");
    let mut orders = Vec::new();
    for _ in 0..form.groups.len() {
        orders.extend(press(&mut form, KeyCode::PageDown));
    }
    assert_eq!(orders, [Order::Review]);
    assert_eq!(press(&mut form, KeyCode::Enter), None, "there is nothing to agree to yet");
    let failure = Failure::new(ExitCode::Usage, "the wizard cannot change `web`");
    form.review = Some(Review::of(Err(failure)));
    assert_eq!(press(&mut form, KeyCode::Enter), None);
    assert!(painted(&form, 80, 24).contains("✖ the wizard cannot change `web`"));
    let lines = vec!["+site = \"lab\"".to_owned(); 40];
    form.review = Some(Review { lines, faults: Vec::new(), is_sound: true });
    let text = painted(&form, 80, 24);
    assert!(text.contains("  +site = \"lab\"") && text.contains("Enter write it"), "{text}");
    assert_eq!(press(&mut form, KeyCode::Enter), Some(Order::Agree));
    assert_eq!((form.answers()["site"].as_str(), form.answers().len()), ("lab", all.len()));
    assert_eq!(control(&mut form, 'c'), Some(Order::Leave));
    assert_eq!(form.handle(Input::Ended), Some(Order::Leave));
}

/// Promise: a form of any size is painted.
#[test]
fn any_size_is_painted() {
    let all = questions(&host(), None);
    let mut form = form(&all, &Answers::new());
    answer(&mut form, "Lab");
    press(&mut form, KeyCode::Enter);
    for (width, height) in (0..50).flat_map(|n| [(n, 4), (30, n), (n, n), (200, n)]) {
        painted(&form, width, height);
    }
    assert!(painted(&form, 40, 7).contains("▸ Lab"), "the field with the cursor is seen");
}
