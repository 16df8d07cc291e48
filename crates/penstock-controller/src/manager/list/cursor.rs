//! Cursors of lists: opaque texts that name a place and the filter of their list.

use data_encoding::BASE64URL_NOPAD;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_cluster::state::ListKey;
use penstock_proto::id::TransferId;

use super::filter::TransferFilter;

/// Bytes of the digest of a filter.
const DIGEST_BYTES: usize = 8;

/// Returns the cursor of the part of a list behind a transfer.
pub(super) fn text(key: ListKey, filter: &TransferFilter) -> String {
    encode(key, &digest(filter))
}

/// Returns the transfer behind which the part of a cursor begins.
///
/// # Errors
/// Code `cursor`: the text is not a cursor, or one of another list.
pub(super) fn parse(text: &str, filter: &TransferFilter) -> Result<ListKey, Problem> {
    let wrong = |title: &str| Problem::new(ProblemCode::Cursor, title).at("?cursor");
    let (key, of_filter) =
        decode(text).ok_or_else(|| wrong("the cursor is not one that a list gave"))?;
    if of_filter != digest(filter) {
        return Err(wrong("the cursor is of a list with another filter or order")
            .hint("repeat the filter of the first part, or begin without a cursor"));
    }
    Ok(key)
}

/// Returns the cursor of an action on many transfers, which continues behind one of them.
pub(crate) fn bulk_text(key: ListKey) -> String {
    encode(key, &[])
}

/// Returns the transfer behind which an action on many continues.
///
/// # Errors
/// Code `cursor`: the text does not come from a reply.
pub(crate) fn parse_bulk(text: &str) -> Result<ListKey, Problem> {
    let (key, []) = decode(text).ok_or_else(|| {
        let title = "`after` is not the `next` of a reply";
        Problem::new(ProblemCode::Cursor, title).at("/after")
    })?;
    Ok(key)
}

fn encode((created, id): ListKey, rest: &[u8]) -> String {
    BASE64URL_NOPAD.encode(&[&created.to_be_bytes()[..], &id.0, rest].concat())
}

/// Returns the key of a text, and the rest of the text; `None` if it has another length or
/// alphabet.
fn decode<const REST: usize>(text: &str) -> Option<(ListKey, [u8; REST])> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
    let (created, rest) = bytes.split_first_chunk::<8>()?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    Some(((u64::from_be_bytes(*created), TransferId(*id)), rest.try_into().ok()?))
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

    /// Promise: the cursor of an action leads to its transfer, and another text is refused.
    #[test]
    fn a_bulk_cursor_is_read_as_it_was_written() {
        let key = (1_795_342_649, TransferId([7; 16]));
        assert_eq!(parse_bulk(&bulk_text(key)), Ok(key));
        for bad in ["", "AAAA", &bulk_text(key)[1..], &text(key, &TransferFilter::default())] {
            assert_eq!(parse_bulk(bad).unwrap_err().code, ProblemCode::Cursor, "`{bad}`");
        }
    }
}
