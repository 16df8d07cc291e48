//! Changes of etcd's members and of its majority, as one peer sees them.

use std::collections::BTreeSet;

use penstock_cluster::etcd::Standing;

/// Kind, subject and text of an event.
pub(super) type Change = (&'static str, String, String);

/// The state of etcd at the last look.
#[derive(Default)]
pub(super) struct EtcdSeen {
    /// Members that did not serve.
    down: BTreeSet<String>,
    /// The time since which etcd has no majority.
    lost_ms: Option<u64>,
}

impl EtcdSeen {
    /// Returns whether something was wrong with etcd at the last look.
    pub(super) fn is_ill(&self) -> bool {
        self.lost_ms.is_some() || !self.down.is_empty()
    }

    /// Compares `standing` with the last look, and returns the events that follow.
    pub(super) fn changes(&mut self, standing: &[Standing], now_ms: u64) -> Vec<Change> {
        let down: Vec<_> = standing.iter().filter(|member| !member.trouble.is_empty()).collect();
        let (all, serve) = (standing.len(), standing.len() - down.len());
        if all == 0 {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if serve == 0 {
            if self.lost_ms.is_none() {
                let whys: Vec<_> = down.iter().map(|member| told(member)).collect();
                let text = format!(
                    "etcd has lost its majority: {}; until it returns, no file gets its final \
                     name, is deleted or counts as durable, and no controller can be elected",
                    whys.join(", ")
                );
                changes.push(("etcd-lost", "etcd".to_owned(), text));
                self.lost_ms = Some(now_ms);
            }
            return changes;
        }
        let is_down = |endpoint: &str| down.iter().any(|member| member.endpoint == endpoint);
        if let Some(since) = self.lost_ms.take() {
            let seconds = now_ms.saturating_sub(since) as f64 / 1000.0;
            let text = format!(
                "etcd has a majority again after {seconds:.0} s: {serve} of {all} members serve; \
                 waiting work continues"
            );
            changes.push(("etcd-back", "etcd".to_owned(), text));
        }
        for member in down.iter().filter(|member| !self.down.contains(&member.endpoint)) {
            let text = format!(
                "a member of etcd is lost: {}; {serve} of {all} serve, so nothing stops, but the \
                 loss of the majority would",
                told(member)
            );
            changes.push(("etcd-member-lost", member.endpoint.clone(), text));
        }
        for endpoint in self.down.iter().filter(|endpoint| !is_down(endpoint)) {
            let text = format!("{endpoint} serves again: {serve} of {all} members of etcd do");
            changes.push(("etcd-member-back", endpoint.clone(), text));
        }
        self.down = down.iter().map(|member| member.endpoint.clone()).collect();
        changes
    }
}

fn told(member: &Standing) -> String {
    format!("{} {}", member.endpoint, member.trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns members 1 to 3, with the given ones down.
    fn members(down: &[usize]) -> Vec<Standing> {
        let member = |number: usize| Standing {
            endpoint: format!("http://e{number}"),
            trouble: if down.contains(&number) { "does not answer" } else { "" }.to_owned(),
        };
        (1..=3).map(member).collect()
    }

    /// Issue 5 (6) and (7): the loss of a member, and of the majority, is reported once each, with
    /// its effect, and again when it is over.
    #[test]
    fn the_loss_of_members_and_of_the_majority_is_told() {
        let mut seen = EtcdSeen::default();
        let mut kinds = |down: &[usize], at_ms| -> Vec<(&'static str, String)> {
            let changes = seen.changes(&members(down), at_ms);
            changes.into_iter().map(|(kind, subject, _)| (kind, subject)).collect()
        };
        let e3 = "http://e3".to_owned();
        assert!(kinds(&[], 1000).is_empty());
        assert_eq!(kinds(&[3], 2000), [("etcd-member-lost", e3.clone())]);
        assert!(kinds(&[3], 4000).is_empty());
        assert_eq!(kinds(&[], 6000), [("etcd-member-back", e3.clone())]);
        // The last member without a majority answers, and serves no client.
        assert_eq!(kinds(&[1, 2, 3], 8000), [("etcd-lost", "etcd".to_owned())]);
        assert!(kinds(&[1, 2, 3], 10_000).is_empty());
        let back = [("etcd-back", "etcd".to_owned()), ("etcd-member-lost", e3)];
        assert_eq!(kinds(&[3], 28_000), back);
        assert!(kinds(&[], 30_000)[0].0 == "etcd-member-back");
        let text = seen.changes(&members(&[1, 2, 3]), 40_000)[0].2.clone();
        assert!(text.contains("http://e1 does not answer, http://e2"), "{text}");
        let text = seen.changes(&members(&[]), 61_000)[0].2.clone();
        assert!(text.contains("after 21 s: 3 of 3"), "{text}");
        assert!(seen.changes(&[], 62_000).is_empty());
    }
}
