//! Full-screen programs on a terminal, for commands that users work with by keys.
//!
//! | module | what it owns |
//! |---|---|
//! | `screen` | the terminal while a full-screen program has it: raw mode, the alternate screen |
//! | `input` | keys, resizes and signals, as messages |
//! | `line` | lines of cells, texts in lines |
//! | `line_edit` | a line of text that a user edits |
//! | `theme` | colours and marks, for terminals with and without them |
//!
//! Such a program is a pure machine: a model, a function that takes messages, and one that paints
//! cells.

pub(crate) mod input;
pub(crate) mod line;
pub(crate) mod line_edit;
pub(crate) mod screen;
pub(crate) mod theme;
