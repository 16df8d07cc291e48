//! Tables in plain text.

/// Returns rows with their columns below each other.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    aligned(rows, &[false; N])
}

/// Returns rows with their columns below each other; those of `right` end below each other.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]], right: &[bool; N]) -> String {
    let length = |text: &str| text.chars().count();
    let widths: [usize; N] =
        std::array::from_fn(|at| rows.iter().map(|row| length(&row[at])).max().unwrap_or(0));
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).zip(right).map(|((cell, width), right)| match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
