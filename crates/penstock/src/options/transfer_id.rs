//! The id of a transfer on the command line.

/// Reads an id, or its first digits.
pub(crate) fn parse_id_digits(text: &str) -> Result<String, String> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.len() {
        1..=32 if is_digits => Ok(text.to_owned()),
        _ => Err("not 1 to 32 hexadecimal digits; `penstock transfer list` shows ids".to_owned()),
    }
}
