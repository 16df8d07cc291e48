//! Items that wait for a commit of the ledger: their facts must be in the logs before any part of
//! the program acts on them.

/// Items that were added since the last commit was cut, and those of the commit that is written.
#[derive(Debug)]
pub(super) struct Staged<T> {
    next: Vec<T>,
    committing: Vec<T>,
}

impl<T> Default for Staged<T> {
    fn default() -> Self {
        Self { next: Vec::new(), committing: Vec::new() }
    }
}

impl<T> Staged<T> {
    /// Adds an item, which waits for the next commit.
    pub(super) fn add(&mut self, item: T) {
        self.next.push(item);
    }

    /// Returns whether an item waits for the next commit.
    pub(super) fn has_next(&self) -> bool {
        !self.next.is_empty()
    }

    /// Cuts a commit: the items that were added until now wait for it.
    pub(super) fn cut(&mut self) {
        self.committing.append(&mut self.next);
    }

    /// Returns whether an item waits for the commit that is written.
    pub(super) fn is_committing(&self) -> bool {
        !self.committing.is_empty()
    }

    /// Takes the items of a finished commit.
    pub(super) fn take_committed(&mut self) -> Vec<T> {
        std::mem::take(&mut self.committing)
    }
}

impl<T: PartialEq> Staged<T> {
    /// Adds an item that does not wait for the next commit already.
    pub(super) fn add_once(&mut self, item: T) {
        if !self.next.contains(&item) {
            self.next.push(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: no item takes effect before the commit that records it. An item that is added while
    /// a commit is written waits for the next one (A6).
    #[test]
    fn a6_what_comes_during_a_commit_waits_for_the_next() {
        let mut staged = Staged::default();
        staged.add_once(1);
        staged.add_once(1);
        assert!(staged.has_next() && !staged.is_committing());
        staged.cut();
        staged.add_once(1);
        assert!(staged.is_committing() && staged.has_next());
        assert_eq!(staged.take_committed(), [1]);
        assert!(staged.take_committed().is_empty());
        staged.cut();
        assert_eq!(staged.take_committed(), [1]);
    }
}
