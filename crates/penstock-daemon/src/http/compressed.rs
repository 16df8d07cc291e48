//! Pages of a data set on their way to a far site, compressed (Zstandard, RFC 8878).
//!
//! A page of small files is some 290 KB, and no work begins before the first has come: over a
//! connection that is new, or has been idle, four round trips (RFC 6928; RFC 5681, 4.1). Names,
//! times and inodes of neighbours are much alike: a sixth to a third of it will do
//! (docs/design/0043-compressed-pages.md).

use std::io;

use axum::http::{HeaderMap, header};
use penstock_proto::manifest::PAGE_BYTES_MAX;

/// The content coding (RFC 8878, 7.2).
pub(crate) const ZSTD: &str = "zstd";

/// The quickest; see docs/design/0043-compressed-pages.md.
const LEVEL: i32 = 1;

/// Returns whether a request accepts an answer in this coding. The form that our own peers write is
/// enough, as only they are paired.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT_ENCODING).is_some_and(|coding| coding == ZSTD)
}

/// Returns a page, compressed; `None` where that makes it no shorter. Some milliseconds for 4 MiB.
pub(crate) fn compress(page: &[u8]) -> Option<Vec<u8>> {
    let compressed = zstd::bulk::compress(page, LEVEL).ok()?;
    (compressed.len() < page.len()).then_some(compressed)
}

/// Returns the decompressed page.
///
/// # Errors
/// These bytes are no such page, or one longer than a page may be.
pub(crate) fn decompress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::decompress(bytes, PAGE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// A12: a page arrives as it was sent. A damaged or cut one, or one that grows beyond the limit
    /// of a page, is refused.
    #[test]
    fn a12_a_compressed_page_arrives_as_it_was() {
        let page: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let short = compress(&page).unwrap();
        assert_eq!(decompress(&short).unwrap(), page);
        assert!(decompress(&short[..short.len() - 1]).is_err(), "cut short");
        assert!(decompress(&page).is_err(), "not compressed");
        assert!(decompress(&[]).unwrap_or_default().is_empty());
        let longest = vec![0; PAGE_BYTES_MAX];
        assert_eq!(decompress(&compress(&longest).unwrap()).unwrap(), longest);
        let longer = compress(&vec![0; PAGE_BYTES_MAX + 1]).unwrap();
        assert!(longer.len() < 1000 && decompress(&longer).is_err(), "longer than a page");
    }

    /// Promise: a page that does not become shorter is sent uncompressed.
    #[test]
    fn what_does_not_become_shorter_is_left_alone() {
        assert_eq!(compress(b"a page"), None);
    }

    /// Promise: a site that did not ask for compression gets no page that it cannot read.
    #[test]
    fn only_who_asks_gets_it() {
        let asked = |value| {
            let headers = [(header::ACCEPT_ENCODING, HeaderValue::from_static(value))];
            is_asked_for(&HeaderMap::from_iter(headers))
        };
        assert!(asked("zstd") && !asked("gzip") && !is_asked_for(&HeaderMap::new()));
    }
}
