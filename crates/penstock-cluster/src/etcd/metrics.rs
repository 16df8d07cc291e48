//! The metrics that a member of etcd shows without a token.

/// Returns a label of one of etcd's metrics that has no other.
pub(super) fn label<'a>(text: &'a str, name: &str, label: &str) -> Option<&'a str> {
    let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let mut values = values.filter_map(|rest| rest.strip_prefix(label)?.strip_prefix("=\""));
    values.next()?.split('"').next()
}

/// Returns a metric of etcd's, by its name at the beginning of a line.
pub(super) fn metric(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(starts_value))?;
    // Large ones are written with an exponent; counts below 2^53 are exact.
    line.rsplit(' ').next()?.parse::<f64>().ok().map(|value| value as u64)
}

fn starts_value(rest: &str) -> bool {
    rest.starts_with(' ')
}
