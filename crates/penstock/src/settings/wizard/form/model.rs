//! The fields of the form, and what keys do to them.

use std::path::Path;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use penstock_api::settings::FaultLevel;
use penstock_exit::{self as exit, Failure};

use super::super::draft::Draft;
use super::super::questions::{Answers, Group, Question};
use crate::terminal::input::Input;
use crate::terminal::line_edit::LineEdit;

/// A question with the answer as it is typed.
pub(super) struct Field<'a> {
    pub(super) question: &'a Question,
    pub(super) line: LineEdit,
    /// The reason for which the answer is none, once the user has left the field.
    pub(super) fault: Option<String>,
}

impl Field<'_> {
    /// Returns the answer; an empty one is the default, as with prompts.
    fn answer(&self) -> String {
        let text = self.line.text();
        let text = text.trim();
        if text.is_empty() { self.question.default.clone() } else { text.to_owned() }
    }

    /// Checks the answer, and returns whether it is one.
    fn is_sound(&mut self) -> bool {
        self.fault = self.question.check(&self.answer()).err();
        self.fault.is_none()
    }
}

/// The last screen: the change of the file.
pub(super) struct Review {
    /// The difference, or the reason for which there is none.
    pub(super) lines: Vec<String>,
    /// Faults with their levels.
    pub(super) faults: Vec<(FaultLevel, String)>,
    /// False if it must not be written.
    pub(super) is_sound: bool,
}

impl Review {
    /// Returns the last screen for what would be written.
    pub(super) fn of(draft: Result<Draft, Failure>) -> Self {
        let draft = match draft {
            Ok(draft) => draft,
            Err(failure) => {
                let fault = (FaultLevel::Error, exit::chain(&failure));
                return Self { lines: Vec::new(), faults: vec![fault], is_sound: false };
            }
        };
        let lines: Vec<String> = match draft.is_change() {
            true => draft.difference.lines().map(str::to_owned).collect(),
            false => vec!["nothing to change".to_owned()],
        };
        let is_sound = draft.is_sound();
        let fault = |it: &penstock_api::settings::SettingFault| (it.level, it.to_string());
        Self { lines, faults: draft.faults.iter().map(fault).collect(), is_sound }
    }
}

/// An order to the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Say what would be written for the answers.
    Review,
    /// Write it.
    Agree,
    /// Write nothing.
    Leave,
    /// Stop the job, as Ctrl-Z does.
    Suspend,
    /// Take the terminal again.
    Resume,
    /// Paint the next frame as a whole.
    Repaint,
}

/// The form.
pub(crate) struct Form<'a> {
    /// The file, in words.
    pub(super) path: String,
    pub(super) is_dry_run: bool,
    /// Answers that were given before.
    given: Answers,
    pub(super) fields: Vec<Field<'a>>,
    /// Subjects, a screen each; the last screen is the review.
    pub(super) groups: Vec<Group>,
    /// The screen: a place in `groups`, or their number for the review.
    pub(super) screen: usize,
    /// The field that takes keys.
    pub(super) focus: usize,
    /// The last screen, once it was made.
    pub(super) review: Option<Review>,
    /// First line shown of the review, and the greatest such line by the last frame.
    pub(super) scroll: usize,
    pub(super) scroll_max: usize,
}

impl<'a> Form<'a> {
    /// Returns a form for the questions that have no answer yet.
    pub(crate) fn new(
        path: &Path,
        questions: &'a [Question],
        given: &Answers,
        is_dry_run: bool,
    ) -> Self {
        let open = questions.iter().filter(|question| !given.contains_key(question.key));
        let field = |question: &'a Question| {
            let line = LineEdit::new(&question.default);
            Field { question, line, fault: None }
        };
        let fields: Vec<_> = open.map(field).collect();
        let mut groups: Vec<Group> = fields.iter().map(|field| field.question.group).collect();
        groups.dedup();
        Self {
            path: path.display().to_string(),
            is_dry_run,
            given: given.clone(),
            fields,
            groups,
            screen: 0,
            focus: 0,
            review: None,
            scroll: 0,
            scroll_max: 0,
        }
    }

    /// Returns all answers.
    pub(super) fn answers(&self) -> Answers {
        let mut answers = self.given.clone();
        answers.extend(self.fields.iter().map(|field| (field.question.key, field.answer())));
        answers
    }

    /// Returns whether the review is shown.
    pub(super) fn is_at_review(&self) -> bool {
        self.screen >= self.groups.len()
    }

    /// Returns the places of the fields of this screen.
    pub(super) fn shown(&self) -> Vec<usize> {
        let group = self.groups.get(self.screen);
        let is_shown = |(_, field): &(usize, &Field<'_>)| Some(&field.question.group) == group;
        self.fields.iter().enumerate().filter(is_shown).map(|(at, _)| at).collect()
    }

    /// Takes an input.
    pub(super) fn handle(&mut self, input: Input) -> Option<Order> {
        let key = match input {
            Input::Key(key) => key,
            Input::Resized => return None,
            Input::Continued => return Some(Order::Resume),
            Input::Ended => return Some(Order::Leave),
        };
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Some(Order::Leave),
                KeyCode::Char('z') => return Some(Order::Suspend),
                KeyCode::Char('l') => return Some(Order::Repaint),
                _ => {}
            }
        }
        if self.is_at_review() { self.handle_review_key(key) } else { self.handle_field_key(key) }
    }

    fn handle_review_key(&mut self, key: KeyEvent) -> Option<Order> {
        match key.code {
            KeyCode::Enter if self.review.as_ref().is_some_and(|review| review.is_sound) => {
                return Some(Order::Agree);
            }
            KeyCode::Esc | KeyCode::BackTab => self.go_back(),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll_by(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll_by(10),
            KeyCode::PageUp => self.scroll_by(-10),
            _ => {}
        }
        None
    }

    fn scroll_by(&mut self, lines: isize) {
        self.scroll = self.scroll.saturating_add_signed(lines).min(self.scroll_max);
    }

    fn handle_field_key(&mut self, key: KeyEvent) -> Option<Order> {
        let shown = self.shown();
        let (first, last) = (*shown.first()?, *shown.last()?);
        match key.code {
            KeyCode::Esc => self.go_back(),
            KeyCode::PageDown => return self.go_on(),
            KeyCode::Enter | KeyCode::Tab | KeyCode::Down => {
                // A wrong answer keeps the cursor at an Enter only: another field may be its cure.
                let is_sound = self.fields[self.focus].is_sound();
                let is_stuck = key.code == KeyCode::Enter && !is_sound;
                if is_stuck {
                    return None;
                }
                if self.focus < last {
                    self.focus += 1;
                } else if key.code != KeyCode::Down {
                    return self.go_on();
                }
            }
            KeyCode::BackTab | KeyCode::Up if self.focus > first => {
                self.fields[self.focus].is_sound();
                self.focus -= 1;
            }
            KeyCode::BackTab => self.go_back(),
            KeyCode::Char('r') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                let field = &mut self.fields[self.focus];
                field.line = LineEdit::new(&field.question.default);
                field.fault = None;
            }
            _ => {
                let field = &mut self.fields[self.focus];
                // What was wrong may be right by now; what is being typed is not wrong yet.
                if field.line.handle_key(key) && field.fault.is_some() {
                    field.is_sound();
                }
            }
        }
        None
    }

    /// Goes to the next screen, if all answers of this one are sound, else to the first that is
    /// not.
    fn go_on(&mut self) -> Option<Order> {
        let shown = self.shown();
        let mut wrong = None;
        for at in shown {
            if !self.fields[at].is_sound() && wrong.is_none() {
                wrong = Some(at);
            }
        }
        if let Some(at) = wrong {
            self.focus = at;
            return None;
        }
        self.screen += 1;
        self.enter_screen();
        self.is_at_review().then_some(Order::Review)
    }

    fn go_back(&mut self) {
        self.screen = self.screen.saturating_sub(1);
        self.review = None;
        self.enter_screen();
    }

    fn enter_screen(&mut self) {
        self.focus = self.shown().first().copied().unwrap_or(0);
        self.scroll = 0;
    }
}
