//! The order of a sweep: randomised complete blocks. Each block has each data set in each mode and
//! direction once, shuffled by the seed, so that a drift of the hosts meets all alike.

use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

use super::matrix::{Direction, Matrix};
use super::modes::Mode;
use crate::dataset::shuffle;

/// A cell that is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// Its name among the cells of the sweep, and of its files.
    pub(super) id: String,
    /// Its place in the sweep, from 1 on.
    pub(super) order: usize,
    /// Number of its block, from 1 on; warm-up rounds count for themselves.
    pub(super) block: u32,
    pub(super) is_warmup: bool,
    /// Places in the lists of the matrix.
    pub(super) dataset: usize,
    pub(super) mode: usize,
    pub(super) direction: Direction,
}

/// Returns all cells in their order. The same matrix and seed give the same for ever.
pub(super) fn schedule(matrix: &Matrix, modes: &[Mode], seed: u64) -> Vec<Planned> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut cells = Vec::new();
    let rounds = (1..=matrix.warmup).map(|block| (block, true));
    for (block, is_warmup) in rounds.chain((1..=matrix.repeats).map(|block| (block, false))) {
        let mut all = Vec::new();
        for dataset in 0..matrix.datasets.len() {
            for mode in 0..modes.len() {
                all.extend(matrix.direction.all().iter().map(|way| (dataset, mode, *way)));
            }
        }
        shuffle(&mut all, &mut random);
        for (dataset, mode, direction) in all {
            let id = format!(
                "{}{block}-{}-{}-{}",
                if is_warmup { 'w' } else { 'b' },
                matrix.datasets[dataset].slug(),
                modes[mode].name,
                direction.as_str()
            );
            let order = cells.len() + 1;
            cells.push(Planned { id, order, block, is_warmup, dataset, mode, direction });
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::super::matrix::parse;
    use super::*;

    fn cells(seed: u64) -> Vec<Planned> {
        let text = "source = \"a:b\"\ntarget = \"c:d\"\ndatasets = [\"1x1\", \"2x2\", \"3x3\"]\n\
                    direction = \"both\"\nrepeats = 5\nwarmup = 2\n\
                    [modes]\nencryption = [\"tls\", \"off\"]\n";
        let matrix = parse(Path::new("m"), text).unwrap();
        schedule(&matrix, &matrix.modes.all(), seed)
    }

    /// Promise: each block has each combination once, in an order of its own that the seed gives;
    /// no two cells share an id.
    #[test]
    fn blocks_are_complete_and_shuffled() {
        let all = cells(7);
        assert_eq!((all.len(), all), (7 * 12, cells(7)));
        assert_ne!(cells(7), cells(8));
        let all = cells(7);
        let ids: BTreeSet<&str> = all.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(ids.len(), all.len());
        let orders: Vec<Vec<_>> = all
            .chunks(12)
            .map(|block| {
                let same = |cell: &Planned| (cell.block, cell.is_warmup);
                assert!(block.iter().all(|cell| same(cell) == same(&block[0])));
                block.iter().map(|cell| (cell.dataset, cell.mode, cell.direction)).collect()
            })
            .collect();
        for order in &orders {
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 12);
        }
        assert_eq!(orders.iter().collect::<BTreeSet<_>>().len(), 7, "no two orders alike");
        assert!(all[..24].iter().all(|cell| cell.is_warmup) && !all[24].is_warmup);
        assert!(all.iter().enumerate().all(|(at, cell)| cell.order == at + 1));
        assert!(all[24].id.starts_with("b1-"), "{}", all[24].id);
    }

    /// Promise: the order of a seed stays what it was in earlier releases.
    #[test]
    fn the_order_of_a_seed_is_fixed() {
        let first: Vec<String> = cells(7).into_iter().take(2).map(|cell| cell.id).collect();
        assert_eq!(first, ["w1-2x2-tls-blake3-reverse", "w1-1x1-off-blake3-forward"]);
    }
}
