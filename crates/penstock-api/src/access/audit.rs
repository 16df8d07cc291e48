//! The audit log: one line for each request of a user that changes something, or is refused.
//!
//! It is a file of JSON Lines. Each line carries a digest over itself and over the digest of the
//! line before it, so that a line which is changed, removed or inserted later is found. The end of
//! a file can be cut off unseen; the first line of the next file carries on the chain.

use std::io::BufRead;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

/// The digest before the first line of a chain.
pub const CHAIN_BEGIN: &str = "";

/// A line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The user.
    pub user: Name,
    /// The user id at the socket, or the token.
    pub via: String,
    /// Address of the client; empty for the socket.
    pub from: String,
    /// Method and path of the request.
    pub request: String,
    /// HTTP status of the answer.
    pub status: u16,
    /// Identifier of the request, as the client was told.
    pub request_id: String,
    /// Digest of the line before.
    pub previous: String,
    /// Digest of this line: BLAKE3 of all fields above, in hex.
    pub digest: String,
}

/// A fault in a chain of lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditFault {
    /// A line cannot be read.
    #[error("line {line} is damaged: {why}")]
    Unreadable {
        /// Its number, from 1.
        line: u64,
        /// The reason.
        why: String,
    },
    /// A line was changed after it was written.
    #[error("line {line} was changed after it was written")]
    Changed {
        /// Its number, from 1.
        line: u64,
    },
    /// The line does not follow the one before it.
    #[error("before line {line} a line was removed or inserted")]
    Broken {
        /// Its number, from 1.
        line: u64,
    },
}

impl AuditLine {
    /// Returns the line as it follows a line with this digest.
    #[must_use]
    pub fn after(mut self, previous: &str) -> Self {
        previous.clone_into(&mut self.previous);
        self.digest = self.computed();
        self
    }

    /// Returns the digest of all other fields. Lengths separate them.
    fn computed(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("penstock audit line 1");
        let fields = [
            &*self.at_ms.to_string(),
            self.user.as_str(),
            &self.via,
            &self.from,
            &self.request,
            &*self.status.to_string(),
            &self.request_id,
            &self.previous,
        ];
        for field in fields {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditChecked {
    /// Number of lines.
    pub lines: u64,
    /// Digest of the line before the first one; empty if the chain begins here.
    pub begins_after: String,
    /// Digest of the last line; the next file begins after it.
    pub last: String,
}

/// Checks the chain of the lines of one file, or of several one after another.
///
/// # Errors
/// The first fault, with the number of its line.
pub fn check_audit(lines: impl BufRead) -> Result<AuditChecked, AuditFault> {
    let mut checked = AuditChecked { lines: 0, begins_after: String::new(), last: String::new() };
    for text in lines.lines() {
        let line = checked.lines + 1;
        let unreadable = |why: String| AuditFault::Unreadable { line, why };
        let text = text.map_err(|error| unreadable(error.to_string()))?;
        let read: AuditLine =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        if read.digest != read.computed() {
            return Err(AuditFault::Changed { line });
        }
        if line == 1 {
            checked.begins_after.clone_from(&read.previous);
        } else if read.previous != checked.last {
            return Err(AuditFault::Broken { line });
        }
        checked.lines = line;
        checked.last = read.digest;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(count: u64) -> Vec<String> {
        let mut previous = CHAIN_BEGIN.to_owned();
        let line = |at_ms| AuditLine {
            at_ms,
            user: "anna".parse().unwrap(),
            via: "token 0011223344556677".to_owned(),
            from: "10.0.0.1".to_owned(),
            request: "POST /api/v1/transfers".to_owned(),
            status: 201,
            request_id: format!("{at_ms:016x}"),
            previous: String::new(),
            digest: String::new(),
        };
        let lines = (0..count).map(|at| {
            let line = line(at).after(&previous);
            previous.clone_from(&line.digest);
            serde_json::to_string(&line).unwrap()
        });
        lines.collect()
    }

    fn check(lines: &[String]) -> Result<AuditChecked, AuditFault> {
        check_audit(lines.join("\n").as_bytes())
    }

    /// Promise (C9): a line that is changed, removed, inserted or moved is found.
    #[test]
    fn c9_a_chain_shows_every_change_but_a_cut_end() {
        let lines = chain(5);
        let checked = check(&lines).unwrap();
        assert_eq!((checked.lines, &*checked.begins_after), (5, ""));
        assert!(check(&lines[2..]).is_ok(), "a later file of the chain");
        let mut removed = lines.clone();
        removed.remove(2);
        assert_eq!(check(&removed), Err(AuditFault::Broken { line: 3 }));
        let mut moved = lines.clone();
        moved.swap(1, 2);
        assert_eq!(check(&moved), Err(AuditFault::Broken { line: 2 }));
        let mut changed = lines.clone();
        changed[3] = changed[3].replace("anna", "mallory");
        assert_eq!(check(&changed), Err(AuditFault::Changed { line: 4 }));
        let mut cut = lines;
        cut[4].truncate(40);
        assert!(matches!(check(&cut), Err(AuditFault::Unreadable { line: 5, .. })));
    }
}
