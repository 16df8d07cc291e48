//! Figures of the whole source that may only improve.
//!
//! A commit that improves a figure lowers its limit. `cargo xtask tidy --places` lists the places.

use std::path::Path;

use crate::{language, modules};

/// Circles of modules, of all crates.
const CIRCLES_MAX: usize = 2;
/// Modules of the largest circle.
const CIRCLE_MODULES_MAX: usize = 4;
/// Comments of items without a subject, of a thousand.
const HEADLESS_PER_MILLE_MAX: usize = 25;
/// Sentences of more than 30 words, of a thousand.
const LONG_PER_MILLE_MAX: usize = 2;
/// Source files directly in one folder.
const FOLDER_FILES_MAX: usize = 16;
/// Files of one crate with an inherent `impl` of one type.
const SPREAD_MAX: usize = 5;

/// Compares the figures with their limits and prints them; returns those that are over.
/// `with_places` prints every place that counts.
///
/// # Errors
/// A source file cannot be read or parsed.
pub(crate) fn check(root: &Path, with_places: bool) -> anyhow::Result<Vec<String>> {
    let circles = modules::circles(root)?;
    let figures = language::measure(root)?;
    let per_mille = |part: usize, whole: usize| (1000 * part).div_ceil(whole.max(1));
    let largest = circles.first().map_or(0, |circle| circle.modules.len());
    let (folder_files, folder) = &figures.largest_folder;
    let (spread, kind) = &figures.spread;
    let rows = [
        ("circles of modules", circles.len(), CIRCLES_MAX, String::new()),
        ("modules of one circle", largest, CIRCLE_MODULES_MAX, String::new()),
        (
            "comments of items without a subject, of 1,000",
            per_mille(figures.headless, figures.item_docs),
            HEADLESS_PER_MILLE_MAX,
            String::new(),
        ),
        (
            "sentences of more than 30 words, of 1,000",
            per_mille(figures.long, figures.sentences),
            LONG_PER_MILLE_MAX,
            String::new(),
        ),
        ("files of one folder", *folder_files, FOLDER_FILES_MAX, format!(" ({folder})")),
        ("files that extend one type", *spread, SPREAD_MAX, format!(" ({kind})")),
    ];
    let mut complaints = Vec::new();
    for (figure, value, limit, place) in rows {
        println!("{figure}: {value}{place}, at most {limit}");
        if value > limit {
            complaints.push(format!("{figure}: {value}{place}, at most {limit}"));
        }
    }
    if with_places {
        for circle in &circles {
            println!("{}: {}", circle.crate_name, circle.modules.join(", "));
        }
        figures.places.iter().for_each(|place| println!("{place}"));
    }
    Ok(complaints)
}
