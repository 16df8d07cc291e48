//! Events of the paths of this peer's transfers.

use std::sync::Arc;

use penstock_peer::{PathNews, PathState, TargetService};

use super::log::EventLog;

impl EventLog {
    /// Records from now on the changes of the paths of the transfers of `target`.
    pub(crate) fn watch_paths(self: &Arc<Self>, target: &TargetService) {
        let log = Arc::clone(self);
        target.listen_to_paths(Arc::new(move |news| log.see_path(news)));
    }

    /// Records a change of a path.
    fn see_path(&self, news: &PathNews) {
        let (state, ends) = (news.note.state, news.note.ends.to_string());
        let subject = format!("{} {ends}", news.site);
        let was_bad = matches!(news.was, PathState::Dead | PathState::Crawling | PathState::Trial);
        let (kind, text) = match state {
            PathState::Dead if news.was != PathState::Dead => (
                "path-dead",
                format!(
                    "path to {subject} is dead: {}; its requests are sent again over other paths, \
                     and the path is not used until it works",
                    news.note.why
                ),
            ),
            PathState::Crawling if !was_bad => (
                "path-crawling",
                format!(
                    "path to {subject} crawls: {}; it is emptied, and tried again now and then",
                    news.note.why
                ),
            ),
            PathState::Carrying if was_bad => {
                ("path-back", format!("path to {subject} carries again"))
            }
            _ => return,
        };
        self.add(kind, &subject, Some(news.transfer), &text);
    }
}
