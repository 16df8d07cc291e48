//! The BLAKE3 of many small messages at once.
//!
//! BLAKE3 is fast because it works on up to 16 chunks of 1,024 bytes at a time, and a file of 4 KiB
//! has four. Here the chunks of several messages fill the vector together. First come the first
//! chunks of all messages, then the second ones, and so on, then the parents of each level. The
//! values are those of `blake3::hash`, message by message; the tests compare every length with it.
//!
//! That crate promises no stability for `blake3::platform`, so the workspace pins one version of
//! it.

use blake3::IncrementCounter;
use blake3::hazmat::HasherExt as _;
use blake3::platform::{MAX_SIMD_DEGREE, Platform};

use super::value::Digest;

/// BLAKE3 paper, table 1: the initial chaining value.
const IV: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
/// BLAKE3 paper, table 3.
const CHUNK_START: u8 = 1;
const CHUNK_END: u8 = 2;
const PARENT: u8 = 4;
const ROOT: u8 = 8;

const CHUNK_BYTES: usize = 1024;
const VALUE_BYTES: usize = 32;
/// Chunks of the longest message that gains: a message of 16 chunks fills the widest vector by
/// itself.
const CHUNKS_MAX: usize = 15;
/// Longest message that gains, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = CHUNKS_MAX * CHUNK_BYTES;
/// Least width of vectors for which it pays: a vector of four chunks is filled by each message of 4
/// KiB.
const DEGREE_MIN: usize = 8;

type Value = [u8; VALUE_BYTES];

/// A message, and the chaining values of the subtrees that were not merged yet.
struct Tree<'a> {
    chunks: &'a [[u8; CHUNK_BYTES]],
    rest: &'a [u8],
    values: Vec<Value>,
}

/// Adds the BLAKE3 of each message to `digests`, in their order.
pub(super) fn hash_many<'a>(
    messages: impl IntoIterator<Item = &'a [u8]>,
    digests: &mut Vec<Digest>,
) {
    let platform = Platform::detect();
    hash_many_on(platform, platform.simd_degree(), messages, digests);
}

/// Does the work of [`hash_many`], with `degree` messages at a time.
fn hash_many_on<'a>(
    platform: Platform,
    degree: usize,
    messages: impl IntoIterator<Item = &'a [u8]>,
    digests: &mut Vec<Digest>,
) {
    let mut trees: Vec<(usize, Tree<'_>)> = Vec::with_capacity(degree);
    for message in messages {
        let at = digests.len();
        let (chunks, rest) = message.as_chunks::<CHUNK_BYTES>();
        let count = chunks.len() + usize::from(!rest.is_empty());
        if degree < DEGREE_MIN || !(2..=CHUNKS_MAX).contains(&count) {
            digests.push(Digest(*blake3::hash(message).as_bytes()));
            continue;
        }
        digests.push(Digest::default());
        trees.push((at, Tree { chunks, rest, values: Vec::with_capacity(count) }));
        if trees.len() == degree {
            hash_trees(platform, &mut trees, digests);
        }
    }
    hash_trees(platform, &mut trees, digests);
}

/// Hashes at most as many messages as the vector is wide, and empties the list.
fn hash_trees(platform: Platform, trees: &mut Vec<(usize, Tree<'_>)>, digests: &mut [Digest]) {
    hash_chunks(platform, trees);
    while trees.iter().any(|(_, tree)| tree.values.len() > 1) {
        merge_level(platform, trees);
    }
    for (at, tree) in trees.drain(..) {
        digests[at] = Digest(tree.values[0]);
    }
}

fn hash_chunks(platform: Platform, trees: &mut [(usize, Tree<'_>)]) {
    let mut out = [0; MAX_SIMD_DEGREE * VALUE_BYTES];
    let longest = trees.iter().map(|(_, tree)| tree.chunks.len()).max().unwrap_or(0);
    for index in 0..longest {
        let mut inputs: [&[u8; CHUNK_BYTES]; MAX_SIMD_DEGREE] =
            [&[0; CHUNK_BYTES]; MAX_SIMD_DEGREE];
        let mut count = 0;
        for chunk in trees.iter().filter_map(|(_, tree)| tree.chunks.get(index)) {
            inputs[count] = chunk;
            count += 1;
        }
        let (no, counter) = (IncrementCounter::No, index as u64);
        let inputs = &inputs[..count];
        platform.hash_many(inputs, &IV, counter, no, 0, CHUNK_START, CHUNK_END, &mut out);
        let mut found = out.as_chunks::<VALUE_BYTES>().0.iter();
        for (_, tree) in trees.iter_mut().filter(|(_, tree)| index < tree.chunks.len()) {
            tree.values.extend(found.next());
        }
    }
    for (_, tree) in trees.iter_mut().filter(|(_, tree)| !tree.rest.is_empty()) {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset((tree.chunks.len() * CHUNK_BYTES) as u64);
        tree.values.push(hasher.update(tree.rest).finalize_non_root());
    }
}

/// Merges neighbours of each tree. A node that remains at the end is moved up unchanged: this is
/// how a left-balanced tree grows.
fn merge_level(platform: Platform, trees: &mut [(usize, Tree<'_>)]) {
    for is_root in [false, true] {
        let wanted = |tree: &Tree<'_>| match tree.values.len() {
            0 | 1 => false,
            2 => is_root,
            _ => !is_root,
        };
        let mut parents: Vec<[u8; 2 * VALUE_BYTES]> = Vec::new();
        for (_, tree) in trees.iter().filter(|(_, tree)| wanted(tree)) {
            parents.extend(tree.values.as_chunks::<2>().0.iter().map(joined));
        }
        let inputs: Vec<&[u8; 2 * VALUE_BYTES]> = parents.iter().collect();
        let mut out = vec![[0; VALUE_BYTES]; parents.len()];
        let flags = if is_root { PARENT | ROOT } else { PARENT };
        let no = IncrementCounter::No;
        platform.hash_many(&inputs, &IV, 0, no, flags, 0, 0, out.as_flattened_mut());
        let mut found = out.into_iter();
        for (_, tree) in trees.iter_mut().filter(|(_, tree)| wanted(tree)) {
            let pairs = tree.values.len() / 2;
            let odd = if tree.values.len() % 2 == 1 { tree.values.pop() } else { None };
            tree.values.clear();
            tree.values.extend(found.by_ref().take(pairs));
            tree.values.extend(odd);
        }
    }
}

fn joined(pair: &[Value; 2]) -> [u8; 2 * VALUE_BYTES] {
    let mut block = [0; 2 * VALUE_BYTES];
    block.copy_from_slice(pair.as_flattened());
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message_of(length: usize, seed: usize) -> Vec<u8> {
        (0..length).map(|at| ((at + seed) % 251) as u8 ^ (at >> 8) as u8).collect()
    }

    /// Checks the digests on this machine's vectors, and without any in groups of either width.
    fn check(messages: &[Vec<u8>]) {
        let expected: Vec<Digest> =
            messages.iter().map(|message| Digest(*blake3::hash(message).as_bytes())).collect();
        let own = Platform::detect();
        for (platform, degree) in
            [(own, own.simd_degree()), (Platform::Portable, 8), (Platform::Portable, 16)]
        {
            let mut digests = vec![Digest::default()];
            let messages = messages.iter().map(Vec::as_slice);
            hash_many_on(platform, degree, messages, &mut digests);
            assert_eq!(digests[1..], expected);
        }
    }

    /// D1: a small file has the digest that `b3sum` prints, in any group: around every chunk
    /// border, alone, in full groups and in the rest of one.
    #[test]
    fn d1_hashed_together_or_alone_a_small_file_has_its_standard_digest() {
        for chunks in 0..=17 {
            let border = chunks * CHUNK_BYTES;
            for length in [border.saturating_sub(1), border, border + 1] {
                for count in [1, 15, 16, 17] {
                    let messages: Vec<_> =
                        (0..count).map(|seed| message_of(length, seed)).collect();
                    check(&messages);
                }
            }
        }
    }

    proptest! {
        /// D1 again, with messages of all lengths beside each other.
        #[test]
        fn d1_messages_of_any_lengths_are_hashed_together(
            lengths in prop::collection::vec(0usize..20_000, 0..50),
        ) {
            let messages: Vec<_> = (0..).zip(&lengths).map(|(n, l)| message_of(*l, n)).collect();
            check(&messages);
        }
    }
}
