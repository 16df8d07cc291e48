//! Answers by a full-screen form: a screen for each subject, then the difference to the file.
//!
//! | module | what it owns |
//! |---|---|
//! | `model` | the fields, and what keys do |
//! | `view` | the cells of a frame |

mod model;
#[cfg(test)]
mod tests;
mod view;

use std::sync::mpsc;

use penstock_exit::Failure;

use super::draft::Draft;
use super::questions::Answers;
use crate::terminal::input::{self, Input};
use crate::terminal::screen::Screen;
use crate::terminal::theme::Theme;
pub(super) use model::Form;
use model::{Order, Review};

/// Shows a form until its user agrees to what would be written, and returns the answers; `None` if
/// the user leaves it. `draft_of` says what would be written. Takes the terminal meanwhile.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn show(
    mut form: Form<'_>,
    draft_of: &dyn Fn(&Answers) -> Result<Draft, Failure>,
) -> Result<Option<Answers>, Failure> {
    let theme = Theme::of_environment();
    let (to, inputs) = mpsc::channel::<Input>();
    let mut screen = Screen::enter()?;
    input::listen(&to)?;
    if form.is_at_review() {
        // Everything was answered before.
        form.review = Some(Review::of(draft_of(&form.answers())));
    }
    loop {
        screen.paint(|area, buffer| form.scroll_max = view::paint(&form, theme, area, buffer))?;
        // This function holds a sender itself: there is always another input.
        let input = inputs.recv().unwrap_or(Input::Ended);
        match form.handle(input) {
            None => {}
            Some(Order::Review) => form.review = Some(Review::of(draft_of(&form.answers()))),
            Some(Order::Suspend) => screen.suspend()?,
            Some(Order::Resume) => screen.resume()?,
            Some(Order::Repaint) => screen.repaint()?,
            Some(Order::Agree) => return Ok(Some(form.answers())),
            Some(Order::Leave) => return Ok(None),
        }
    }
}
