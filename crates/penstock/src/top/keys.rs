//! Keys of the user.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use penstock_api::access::Right;
use penstock_api::rest::Action;
use penstock_api::transfer::TransferState;
use penstock_exit::ExitCode;
use penstock_proto::id::TransferId;

use super::model::{Model, Order, Overlay, Page};
use super::sections::{Sections, chosen};
use crate::terminal::input::Input;
use crate::terminal::line_edit::LineEdit;

/// Lines by which a page key moves.
const PAGE_LINES: isize = 10;

impl Model {
    /// Takes an input of the terminal.
    pub(super) fn handle_input(&mut self, input: Input) -> Vec<Order> {
        match input {
            Input::Resized => Vec::new(),
            Input::Continued => vec![Order::Resume],
            Input::Ended => vec![Order::Quit(ExitCode::Interrupted)],
            Input::Key(key) => self.handle_key(key),
        }
    }

    fn handle_key(&mut self, key: KeyEvent) -> Vec<Order> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return vec![Order::Quit(ExitCode::Interrupted)],
                KeyCode::Char('z') => return vec![Order::Suspend],
                KeyCode::Char('l') => return vec![Order::Repaint],
                _ => {}
            }
        }
        if self.filter_edit.is_some() {
            self.handle_filter_key(key);
            return Vec::new();
        }
        match self.overlay {
            Some(Overlay::Help) => self.overlay = None,
            Some(Overlay::Cancel(id)) => return self.handle_answer_key(key.code, id),
            None => return self.handle_page_key(key.code),
        }
        Vec::new()
    }

    /// The filter follows the text as it is typed.
    fn handle_filter_key(&mut self, key: KeyEvent) {
        let Some(line) = &mut self.filter_edit else { return };
        match key.code {
            KeyCode::Enter => self.filter_edit = None,
            KeyCode::Esc => {
                self.filter_edit = None;
                self.filter.clear();
            }
            _ => {
                line.handle_key(key);
                self.filter = line.text();
            }
        }
    }

    /// Only a clear yes cancels.
    fn handle_answer_key(&mut self, code: KeyCode, id: TransferId) -> Vec<Order> {
        self.overlay = None;
        if code == KeyCode::Char('y') {
            return vec![Order::Act(id, Action::Cancel)];
        }
        self.tell(format!("{} is not cancelled", id.short()), false);
        Vec::new()
    }

    fn handle_page_key(&mut self, code: KeyCode) -> Vec<Order> {
        match code {
            KeyCode::Char('q') => return vec![Order::Quit(ExitCode::Done)],
            KeyCode::Char('?') | KeyCode::F(1) => self.overlay = Some(Overlay::Help),
            KeyCode::Char('p') => return self.pause_or_resume(),
            KeyCode::Char('c') => self.ask_to_cancel(),
            KeyCode::Char('r') => return self.retry(),
            KeyCode::Char('j') | KeyCode::Down => self.move_by(1),
            KeyCode::Char('k') | KeyCode::Up => self.move_by(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.move_by(PAGE_LINES),
            KeyCode::PageUp => self.move_by(-PAGE_LINES),
            KeyCode::Char('g') | KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::Char('G') | KeyCode::End => self.move_by(isize::MAX),
            KeyCode::Tab => self.turn_page(),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.go_back(),
            _ if self.page == Page::Overview => self.handle_overview_key(code),
            _ => {}
        }
        Vec::new()
    }

    fn handle_overview_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter | KeyCode::Right => {
                if let Some(id) = self.chosen_id() {
                    self.open(id);
                    self.go_to(Page::Transfer);
                }
            }
            KeyCode::Char('/') => self.filter_edit = Some(LineEdit::new(&self.filter)),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('a') => self.shows_all_alerts = !self.shows_all_alerts,
            _ => {}
        }
    }

    fn turn_page(&mut self) {
        let page = match self.page {
            Page::Overview => Page::Peers,
            Page::Peers | Page::Transfer => Page::Overview,
        };
        self.detail = None;
        self.go_to(page);
    }

    fn go_to(&mut self, page: Page) {
        self.page = page;
        self.scroll = 0;
    }

    fn go_back(&mut self) {
        match self.page {
            Page::Overview => self.filter.clear(),
            Page::Transfer | Page::Peers => {
                self.detail = None;
                self.go_to(Page::Overview);
            }
        }
    }

    /// Moves the cursor of the overview, or scrolls a transfer.
    fn move_by(&mut self, lines: isize) {
        if self.page != Page::Overview {
            self.scroll = self.scroll.saturating_add_signed(lines).min(self.scroll_max);
            return;
        }
        let entries = Sections::of(self).entries();
        if let Some((_, place)) = chosen(self, &entries) {
            let place = place.saturating_add_signed(lines).min(entries.len() - 1);
            self.cursor = Some((entries[place], place));
        }
    }

    /// Returns the transfer that keys act on.
    pub(super) fn chosen_id(&self) -> Option<TransferId> {
        match (&self.detail, self.page) {
            (Some(detail), Page::Transfer) => Some(detail.id),
            (_, Page::Overview) => {
                let entries = Sections::of(self).entries();
                chosen(self, &entries).map(|(entry, _)| entry.id)
            }
            _ => None,
        }
    }

    /// Returns the transfer that keys act on, with its state, if the user may steer it and there is
    /// contact; tells the reason if not.
    fn steered(&mut self) -> Option<(TransferId, TransferState)> {
        let id = self.chosen_id()?;
        if !self.is_live() {
            self.tell("without contact with the daemon nothing can be changed".to_owned(), true);
            return None;
        }
        if !self.may(Right::Steer) {
            let text = format!("the user {} may not steer transfers", self.me.user);
            self.tell(text, true);
            return None;
        }
        Some((id, self.state_of(id)?))
    }

    fn state_of(&self, id: TransferId) -> Option<TransferState> {
        let row = self.rows.get(id).map(|row| row.summary.state);
        let view = self.detail.as_ref().and_then(|detail| detail.view.as_ref());
        row.or(view.map(|view| view.state))
    }

    fn pause_or_resume(&mut self) -> Vec<Order> {
        let Some((id, state)) = self.steered() else { return Vec::new() };
        let action = match state {
            TransferState::Queued | TransferState::Running => Action::Pause,
            TransferState::Paused => Action::Resume,
            _ => {
                self.tell(format!("{} has ended: {}", id.short(), state.as_str()), true);
                return Vec::new();
            }
        };
        vec![Order::Act(id, action)]
    }

    fn retry(&mut self) -> Vec<Order> {
        let Some((id, state)) = self.steered() else { return Vec::new() };
        if state != TransferState::Failed {
            let text = format!("{} has not failed: it is {}", id.short(), state.as_str());
            self.tell(text, true);
            return Vec::new();
        }
        vec![Order::Act(id, Action::Retry)]
    }

    fn ask_to_cancel(&mut self) {
        let Some((id, state)) = self.steered() else { return };
        if state.is_ended() {
            self.tell(format!("{} has ended: {}", id.short(), state.as_str()), true);
        } else {
            self.overlay = Some(Overlay::Cancel(id));
        }
    }
}
