//! The place where a part of a directory ended, as text that a client returns.
//!
//! The text is no secret and proves nothing. A client that changes it receives only names of the
//! directory that it may list, and a part costs no more than one of an honest list. The text names
//! its list, so that a client which mixes lists gets an error. It names the directory by its inode,
//! which all hosts that share a file system see alike.

use data_encoding::BASE64URL_NOPAD;
use penstock_api::rest::EntriesQuery;
use penstock_proto::id::Name;

/// Form of the text.
const FORM: u8 = 1;
/// Kinds of positions.
const BEHIND_KEY: u8 = b'k';
const AT: u8 = b'o';

/// The place of an entry in a sorted list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The first entry has the smallest one: the negative size or time; 0 in the order of names.
    pub(super) rank: i128,
    pub(super) name: Vec<u8>,
}

/// The place where a part begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Behind this entry of a sorted list.
    Behind(Key),
    /// At this position of the file system's order.
    At(u64),
}

/// The reason why a text is no place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CursorError {
    #[error("the cursor is not one that a list of entries gave")]
    Unreadable,
    #[error("the cursor is of another directory, selection or order")]
    OtherList,
    #[error("another directory has the path since the list began")]
    Replaced,
    #[error("the directory has become too wide to sort since the list began")]
    Grown,
}

/// Mark of a list: its directory, selection and order.
pub(super) type ListMark = [u8; 8];

/// Returns the mark of the list that a query asks for.
pub(super) fn list_of(store: &Name, query: &EntriesQuery) -> ListMark {
    let mut hasher = blake3::Hasher::new_derive_key("penstock entries cursor 1");
    let kind = query.kind.map(|kind| format!("{kind:?}")).unwrap_or_default();
    let fields = [
        store.as_str().as_bytes(),
        &query.path.0,
        &query.prefix.0,
        kind.as_bytes(),
        query.sort.as_str().as_bytes(),
    ];
    for field in fields {
        hasher.update(&(field.len() as u64).to_le_bytes());
        hasher.update(field);
    }
    let mut mark = ListMark::default();
    hasher.finalize_xof().fill(&mut mark);
    mark
}

/// Returns the text of a position in the list of a directory.
pub(super) fn encode(list: ListMark, inode: u64, position: &Position) -> String {
    let mut bytes = vec![FORM];
    bytes.extend(list);
    bytes.extend(inode.to_le_bytes());
    match position {
        Position::Behind(key) => {
            bytes.push(BEHIND_KEY);
            bytes.extend(key.rank.to_le_bytes());
            bytes.extend(&key.name);
        }
        Position::At(position) => {
            bytes.push(AT);
            bytes.extend(position.to_le_bytes());
        }
    }
    BASE64URL_NOPAD.encode(&bytes)
}

/// Reads the text of a position in the list of a directory.
///
/// # Errors
/// The text is no position, or one of another list.
pub(super) fn decode(text: &str, list: ListMark, inode: u64) -> Result<Position, CursorError> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| CursorError::Unreadable)?;
    let read = || {
        let rest = bytes.strip_prefix(&[FORM])?;
        let (of, rest) = rest.split_first_chunk::<8>()?;
        let (directory, rest) = rest.split_first_chunk::<8>()?;
        let position = match rest.split_first()? {
            (&BEHIND_KEY, rest) => {
                let (rank, name) = rest.split_first_chunk::<16>()?;
                Position::Behind(Key { rank: i128::from_le_bytes(*rank), name: name.to_vec() })
            }
            // Positions of a directory are offsets of lseek(2), which are not negative.
            (&AT, rest) => {
                let position = i64::from_le_bytes(rest.try_into().ok()?);
                Position::At(u64::try_from(position).ok()?)
            }
            _ => return None,
        };
        Some((*of, u64::from_le_bytes(*directory), position))
    };
    match read() {
        None => Err(CursorError::Unreadable),
        Some((of, ..)) if of != list => Err(CursorError::OtherList),
        Some((_, directory, _)) if directory != inode => Err(CursorError::Replaced),
        Some((.., position)) => Ok(position),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a position survives as text, and no other list takes it.
    #[test]
    fn a_cursor_is_of_its_list() {
        let store: Name = "raw".parse().unwrap();
        let query = EntriesQuery::default();
        let list = list_of(&store, &query);
        let key = Key { rank: -7, name: b"a\xff\n".to_vec() };
        for position in [Position::Behind(key), Position::At(i64::MAX as u64)] {
            let text = encode(list, 5, &position);
            assert_eq!(decode(&text, list, 5), Ok(position));
            assert_eq!(decode(&text, list, 6), Err(CursorError::Replaced));
            let prefix = penstock_api::place::PathText(b"a".to_vec());
            let other = list_of(&store, &EntriesQuery { prefix, ..query.clone() });
            assert_eq!(decode(&text, other, 5), Err(CursorError::OtherList));
            for cut in 0..text.len().min(24) {
                let cut = decode(&text[..cut], list, 5);
                assert_eq!(cut, Err(CursorError::Unreadable));
            }
        }
        let text = encode(list, 5, &Position::At(u64::MAX));
        assert_eq!(decode(&text, list, 5), Err(CursorError::Unreadable));
        assert_eq!(decode("ä", list, 5), Err(CursorError::Unreadable));
    }
}
