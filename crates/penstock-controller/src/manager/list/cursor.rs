//! Cursors of lists: opaque texts that name a place and the filter of their list.

use data_encoding::BASE64URL_NOPAD;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_cluster::state::ListKey;
use penstock_proto::id::TransferId;

use super::filter::TransferFilter;

/// Bytes of a cursor: seconds, id, digest of the filter.
const BYTES: usize = 8 + 16 + DIGEST_BYTES;
const DIGEST_BYTES: usize = 8;

/// Returns the cursor of the part behind a place.
pub(super) fn text((created, id): ListKey, filter: &TransferFilter) -> String {
    let mut bytes = created.to_be_bytes().to_vec();
    bytes.extend(id.0);
    bytes.extend(digest(filter));
    BASE64URL_NOPAD.encode(&bytes)
}

/// Returns the place behind which the part of a cursor begins.
///
/// # Errors
/// Code `cursor`: the text is not a cursor, or one of another list.
pub(super) fn parse(text: &str, filter: &TransferFilter) -> Result<ListKey, Problem> {
    let wrong = |title: &str| Problem::new(ProblemCode::Cursor, title).at("?cursor");
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
    let bytes = bytes.and_then(|bytes| <[u8; BYTES]>::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| wrong("the cursor is not one that a list gave"))?;
    let (created, rest) = bytes.split_at(8);
    let (id, of_filter) = rest.split_at(16);
    if of_filter != digest(filter) {
        return Err(wrong("the cursor is of a list with another filter or order")
            .hint("repeat the filter of the first part, or begin without a cursor"));
    }
    let (mut seconds, mut id_bytes) = ([0; 8], [0; 16]);
    seconds.copy_from_slice(created);
    id_bytes.copy_from_slice(id);
    Ok((u64::from_be_bytes(seconds), TransferId(id_bytes)))
}

fn digest(filter: &TransferFilter) -> [u8; DIGEST_BYTES] {
    let hash = blake3::hash(format!("{filter:?}").as_bytes());
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&hash.as_bytes()[..DIGEST_BYTES]);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a cursor leads to its place in the list that gave it, and nowhere else.
    #[test]
    fn a_cursor_is_of_one_list() {
        let (all, key) = (TransferFilter::default(), (1_795_342_649, TransferId([7; 16])));
        let cursor = text(key, &all);
        assert_eq!(parse(&cursor, &all).unwrap(), key);
        let other = TransferFilter { needs_attention: true, ..all.clone() };
        assert_eq!(parse(&cursor, &other).unwrap_err().code, ProblemCode::Cursor);
        for bad in ["", "1-2", &cursor[1..]] {
            assert_eq!(parse(bad, &all).unwrap_err().status, 400, "`{bad}`");
        }
    }
}
