//! The course of a peer's part in a transfer, in words.

use std::time::Duration;

use penstock_api::peers::PartNews;
use penstock_proto::id::TransferId;

use super::log::EventLog;

impl EventLog {
    /// Records the course of a peer's part in a transfer.
    pub(crate) fn see_part(&self, transfer: TransferId, peer: &str, news: &PartNews) {
        let (kind, text) = words(peer, news);
        self.add(kind, peer, Some(transfer), &text);
    }
}

fn words(peer: &str, news: &PartNews) -> (&'static str, String) {
    match news {
        PartNews::Joined => {
            ("peer-in", format!("peer `{peer}` takes part: it gets a share from now on"))
        }
        PartNews::Refused { why, again } => {
            let again = tried_again(*again);
            ("peer-out", format!("peer `{peer}` cannot take part: {why}; {again}"))
        }
        PartNews::Drained => {
            let text = "is drained: its writes are durable, and it has no work";
            ("peer-out", format!("peer `{peer}` {text}"))
        }
        PartNews::Out { why, is_lost, others, again } => {
            let to = match others {
                0 => "waits until a peer takes part".to_owned(),
                1 => "goes to the other peer".to_owned(),
                others => format!("goes to the {others} other peers"),
            };
            let written = match is_lost {
                true => "; other peers check its last writes, or fetch them again",
                false => "",
            };
            let again = tried_again(*again);
            let text = format!("is out: {why}; its work {to}{written}; {again}");
            ("peer-out", format!("peer `{peer}` {text}"))
        }
    }
}

fn tried_again(again: Option<Duration>) -> String {
    match again {
        None => "it is not tried again before it is restarted".to_owned(),
        Some(again) if again.as_millis() < 500 => "it is tried again at once".to_owned(),
        Some(again) => format!("it is tried again in {:.0} s", again.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 5: an event names the peer that left a transfer, the reason, and the consequence.
    #[test]
    fn an_event_says_who_is_out_why_and_what_comes_of_it() {
        let out = |is_lost, others, again| {
            words("b1", &PartNews::Out { why: "it is silent".to_owned(), is_lost, others, again })
        };
        let (kind, text) = out(true, 2, Some(Duration::from_secs(5)));
        assert_eq!(kind, "peer-out");
        let expected = "peer `b1` is out: it is silent; its work goes to the 2 other peers; other \
                        peers check its last writes, or fetch them again; it is tried again in \
                        5 s";
        assert_eq!(text, expected);
        let (_, text) = out(false, 0, None);
        assert!(text.contains("waits until a peer takes part; it is not tried again"), "{text}");
        assert_eq!(words("b2", &PartNews::Joined).0, "peer-in");
    }
}
