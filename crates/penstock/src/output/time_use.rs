//! Where the time of a transfer goes: a line for each side.

use penstock_api::time_use::{PeerTime, TransferTime, sum_of};
use penstock_proto::time_use::Activity;

/// Columns of a line.
const COLUMNS: usize = 79;
/// Least share that a line names.
const LEAST: f64 = 0.005;

/// Returns lines that tell on which activities the threads of each side spend their time; none
/// where nothing is known.
pub(crate) fn lines(time: &TransferTime) -> Vec<String> {
    let [source, target] = [&time.source, &time.target].map(|peers| shares_of(peers));
    let sum = |shares: &[(Activity, f64)]| shares.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let (of_source, of_target) = (sum(&source), sum(&target));
    let all = of_source + of_target;
    if all <= 0.0 {
        return Vec::new();
    }
    // One thread of a local copy does what both sides do.
    let whole = |own: f64| if time.is_local { all } else { own };
    let mut lines = vec!["where the time of its threads goes".to_owned()];
    lines.extend(line("source", source, whole(of_source)));
    lines.extend(line("target", target, whole(of_target)));
    lines
}

/// Returns the seconds of all activities but those of lanes that had nothing to do.
fn shares_of(peers: &[PeerTime]) -> Vec<(Activity, f64)> {
    let sum = sum_of(peers);
    let idle = |activity: Activity| activity == Activity::Idle || activity.is_part();
    let both = |activity| sum.lanes.get(activity) + sum.publishers.get(activity);
    let all = Activity::ALL.iter().filter(|activity| !idle(**activity));
    all.map(|&activity| (activity, both(activity))).collect()
}

fn line(side: &str, mut shares: Vec<(Activity, f64)>, whole: f64) -> Option<String> {
    shares.retain(|(_, seconds)| *seconds >= LEAST * whole && *seconds > 0.0);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut line = format!("  {side:<9}");
    for (place, (activity, seconds)) in shares.iter().enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        let part = format!("{comma}{:.0} % {}", seconds / whole * 100.0, words(*activity));
        if line.chars().count() + part.chars().count() > COLUMNS - ", …".chars().count() {
            line.push_str(", …");
            break;
        }
        line.push_str(&part);
    }
    (!shares.is_empty()).then_some(line)
}

/// Returns the words for an activity, as they follow its share.
fn words(activity: Activity) -> &'static str {
    match activity {
        Activity::Read => "read",
        Activity::Hash => "hash",
        Activity::Seal => "seal",
        Activity::Send => "send",
        Activity::Receive => "receive",
        Activity::Open => "open",
        Activity::Compare => "compare",
        Activity::Write => "write",
        Activity::Metadata => "open and make files",
        Activity::Sync => "sync",
        Activity::Publish => "name files",
        Activity::WaitSource => "wait for the source",
        Activity::WaitTarget => "wait for the target",
        Activity::WaitGrant => "wait for work",
        Activity::WaitDisk => "wait for syncs",
        Activity::WaitLimit => "wait for the limit",
        Activity::WaitMemory => "wait for a buffer",
        Activity::Idle => "idle",
        Activity::Other => "other",
        Activity::Cpu => "processor",
        Activity::CpuWait => "wait for a processor",
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::time_use::ActivitySeconds;

    use super::*;

    fn side(lanes: ActivitySeconds) -> Vec<PeerTime> {
        vec![PeerTime { lanes, ..PeerTime::default() }]
    }

    /// Promise: each side has a line of 79 columns at most, the greatest share first, of the time
    /// in which its threads had something to do.
    #[test]
    fn each_side_has_a_line() {
        let source =
            ActivitySeconds { read: 81.0, hash: 9.0, wait_target: 10.0, ..Default::default() };
        let target = ActivitySeconds {
            wait_source: 40.0,
            write: 10.0,
            idle: 500.0,
            cpu: 20.0,
            ..Default::default()
        };
        let mut time =
            TransferTime { source: side(source), target: side(target), ..TransferTime::default() };
        assert_eq!(
            lines(&time),
            [
                "where the time of its threads goes",
                "  source   81 % read, 10 % wait for the target, 9 % hash",
                "  target   80 % wait for the source, 20 % write",
            ]
        );
        time.is_local = true;
        assert_eq!(lines(&time)[1], "  source   54 % read, 7 % wait for the target, 6 % hash");
        assert!(lines(&TransferTime::default()).is_empty());
    }

    /// Promise: a line that is too long ends with the least shares left out.
    #[test]
    fn a_line_fits() {
        let all = r#"{"open":9,"compare":8,"write":7,"metadata":6,"wait_source":5,"wait_grant":4,
            "wait_disk":3,"wait_limit":2,"wait_memory":1}"#;
        let time = TransferTime {
            target: side(serde_json::from_str(all).unwrap()),
            ..TransferTime::default()
        };
        let [_, line] = &lines(&time)[..] else { panic!("one side") };
        assert!(line.starts_with("  target   20 % open, 18 % compare") && line.ends_with(", …"));
        assert!(line.chars().count() <= 79, "{line}");
    }
}
