//! The keys of this site, their successors on disk, and statements about the keys of paired sites.
//!
//! In the trust directory `keys.json` holds the last statements. The next keys lie in `next/` until
//! they are committed: `next/` is then renamed to `committed/`, and its files are moved over those
//! of before. A crash in the midst of that is made good at the next start.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use data_encoding::{BASE64, HEXLOWER};
use penstock_api::keys::{KeyStatement, KeysRecord, REVOKED_MAX, RevokedKey, SignedKeys};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::site::JoinFile;
use penstock_cluster::state::Pairing;
use penstock_net::trust::{
    Fingerprint, LINKS_MAX, PeerCertificate, SiteAuthority, inspect_authority, save_authority,
    verify_keys,
};
use penstock_proto::id::{Name, PeerId};
use rustls::pki_types::CertificateDer;

use crate::access::receipt_keys::KEY_FILE as RECEIPT_KEY;

/// Validity of a capability. A transfer that takes longer opens its scan again.
pub(crate) const CAPABILITY_SECONDS: u64 = 7 * 24 * 3600;
/// Longest text of a statement: [`REVOKED_MAX`] keys and two certificates need less.
const STATEMENT_BYTES_MAX: usize = 256 << 10;
/// In the trust directory: the statements.
pub(crate) const STATEMENTS: &str = "keys.json";
const NEXT: &str = "next";
const NEXT_PART: &str = "next.part";
const COMMITTED: &str = "committed";
/// Files that are the same at each peer of the site.
pub(crate) const SHARED: [&str; 5] =
    ["authority.pem", "authority.key", "capability.key", "authority-links.pem", STATEMENTS];

/// The keys of the own site, and how they became that.
pub(crate) struct OwnKeys {
    pub(crate) authority: SiteAuthority,
    /// The last statements, in ascending order.
    statements: Vec<SignedKeys>,
    sequence: u64,
    revoked: Vec<RevokedKey>,
    /// Public keys that checked capabilities before, and until when these are still good.
    retired: Vec<(Vec<u8>, u64)>,
}

impl OwnKeys {
    /// Returns the first keys of a site.
    pub(crate) fn of(authority: SiteAuthority) -> Self {
        let (statements, revoked, retired) = (Vec::new(), Vec::new(), Vec::new());
        Self { authority, statements, sequence: 0, revoked, retired }
    }

    /// Reads those of a trust directory, and completes a commit that was cut short. Blocks.
    ///
    /// # Errors
    /// A file cannot be read or written, or does not fit the others.
    pub(crate) fn load(trust: &Path) -> anyhow::Result<Self> {
        if trust.join(COMMITTED).exists() {
            take_over(trust)?;
        }
        Self::read(trust)
    }

    /// Reads keys that were staged and not committed, if there are such.
    ///
    /// # Errors
    /// As [`OwnKeys::load`].
    pub(crate) fn load_staged(trust: &Path) -> anyhow::Result<Option<(Self, PeerCertificate)>> {
        let next = trust.join(NEXT);
        if !next.exists() {
            return Ok(None);
        }
        Ok(Some((Self::read(&next)?, PeerCertificate::load(&next)?)))
    }

    fn read(directory: &Path) -> anyhow::Result<Self> {
        let mut keys = Self::of(SiteAuthority::load(directory)?);
        let path = directory.join(STATEMENTS);
        if path.exists() {
            let record: KeysRecord = serde_json::from_slice(&fs::read(&path)?)?;
            keys.statements = record.statements;
            for signed in &keys.statements {
                let statement: KeyStatement = serde_json::from_str(&signed.statement)?;
                let until = statement.made + CAPABILITY_SECONDS;
                let key = HEXLOWER.decode(statement.previous_capability_key.as_bytes())?;
                keys.retired.push((key, until));
                (keys.sequence, keys.revoked) = (statement.sequence, statement.revoked);
            }
        }
        Ok(keys)
    }

    /// Returns the number of the statement that made these the site's keys; 0 for its first ones.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the keys of peers of this site that are refused.
    pub(crate) fn revoked(&self) -> BTreeSet<Fingerprint> {
        self.revoked.iter().filter_map(|revoked| revoked.key.parse().ok()).collect()
    }

    /// Returns the statements for a site that trusts the keys with this number.
    pub(crate) fn statements_after(&self, sequence: u64) -> KeysRecord {
        let missing = usize::try_from(self.sequence.saturating_sub(sequence)).unwrap_or(usize::MAX);
        let from = self.statements.len().saturating_sub(missing);
        KeysRecord { statements: self.statements[from..].to_vec() }
    }

    /// Returns the public keys that check capabilities at a moment, seconds since 1970, the newest
    /// first.
    pub(crate) fn capability_keys(&self, now: u64) -> impl Iterator<Item = [u8; 32]> {
        let retired = self.retired.iter().rev().filter(move |(_, until)| now < *until);
        let retired = retired.filter_map(|(key, _)| key.as_slice().try_into().ok());
        std::iter::once(self.authority.capability_key().public_key()).chain(retired)
    }

    /// Returns the keys that are to follow these, and revoke `revoked`.
    ///
    /// # Errors
    /// The keys cannot be made.
    pub(crate) fn next(&self, revoked: Option<RevokedKey>, now: u64) -> anyhow::Result<Self> {
        let authority = self.authority.succeed()?;
        let public =
            |authority: &SiteAuthority| HEXLOWER.encode(&authority.capability_key().public_key());
        let mut all: Vec<_> = self.revoked.iter().cloned().chain(revoked).collect();
        // The oldest keys are of authorities that no site trusts by now.
        all.drain(..all.len().saturating_sub(REVOKED_MAX));
        let statement = KeyStatement {
            site: authority.site().clone(),
            sequence: self.sequence + 1,
            made: now,
            previous: HEXLOWER.encode(self.authority.certificate()),
            authority: HEXLOWER.encode(authority.certificate()),
            previous_capability_key: public(&self.authority),
            capability_key: public(&authority),
            revoked: all,
        };
        let text = serde_json::to_string(&statement)?;
        let signed = SignedKeys {
            by_previous: HEXLOWER.encode(&self.authority.sign_keys(text.as_bytes())?),
            by_new: HEXLOWER.encode(&authority.sign_keys(text.as_bytes())?),
            statement: text,
        };
        let mut statements = self.statements.clone();
        statements.push(signed);
        statements.drain(..statements.len().saturating_sub(LINKS_MAX));
        let mut retired = self.retired.clone();
        let key = self.authority.capability_key().public_key().to_vec();
        retired.push((key, now + CAPABILITY_SECONDS));
        let (sequence, revoked) = (statement.sequence, statement.revoked);
        Ok(Self { authority, statements, sequence, revoked, retired })
    }

    /// Writes keys into `next/` with a certificate of theirs for this peer, and returns that.
    /// Blocks.
    ///
    /// # Errors
    /// The keys cannot be written.
    pub(crate) fn stage(&self, trust: &Path, peer: &PeerId) -> anyhow::Result<PeerCertificate> {
        let part = begin_part(trust)?;
        self.authority.save(&part)?;
        let record = KeysRecord { statements: self.statements.clone() };
        fs::write(part.join(STATEMENTS), serde_json::to_vec_pretty(&record)?)?;
        self.finish_part(trust, peer)
    }

    fn finish_part(&self, trust: &Path, peer: &PeerId) -> anyhow::Result<PeerCertificate> {
        let (part, next) = (trust.join(NEXT_PART), trust.join(NEXT));
        let issued = self.authority.issue_peer(peer)?;
        issued.save(&part)?;
        File::open(part.join(STATEMENTS))?.sync_all()?;
        File::open(&part)?.sync_all()?;
        remove(&next)?;
        fs::rename(&part, &next)?;
        File::open(trust)?.sync_all()?;
        Ok(issued)
    }

    /// Returns the files of `next/` that other peers of the site are to have. Blocks.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(crate) fn staged_files(trust: &Path) -> io::Result<Vec<JoinFile>> {
        let file = |name: &str| {
            let content = BASE64.encode(&fs::read(trust.join(NEXT).join(name))?);
            Ok(JoinFile { path: name.to_owned(), content })
        };
        SHARED.into_iter().map(file).collect()
    }

    /// Stages keys that another peer of the site has made, if these follow the own ones; returns
    /// them with this peer's certificate. Blocks.
    ///
    /// # Errors
    /// The statement is not the next one, or not signed by the own authority; a file cannot be
    /// written.
    pub(crate) fn take_staged(
        &self,
        trust: &Path,
        files: &[JoinFile],
        peer: &PeerId,
    ) -> anyhow::Result<(Self, PeerCertificate)> {
        let part = begin_part(trust)?;
        for name in SHARED {
            let file = files.iter().find(|file| file.path == name);
            let file = file.ok_or_else(|| anyhow::anyhow!("`{name}` is missing"))?;
            let content = BASE64.decode(file.content.as_bytes())?;
            let path = part.join(name);
            let mut options = File::options();
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.write(true).create_new(true).open(&path)?;
            io::Write::write_all(&mut file, &content)?;
            file.sync_all()?;
        }
        let next = Self::read(&part)?;
        let signed = next.statements.last();
        let signed = signed.ok_or_else(|| anyhow::anyhow!("the statement is missing"))?;
        let own = self.authority.certificate();
        let statement = check(self.authority.site(), own, self.sequence + 1, signed)?;
        if statement.authority != HEXLOWER.encode(next.authority.certificate()) {
            anyhow::bail!("the statement is about another authority");
        }
        let issued = next.finish_part(trust, peer)?;
        Ok((next, issued))
    }
}

fn begin_part(trust: &Path) -> io::Result<std::path::PathBuf> {
    let part = trust.join(NEXT_PART);
    remove(&part)?;
    std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).create(&part)?;
    Ok(part)
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the staged keys those of the site, on disk. Blocks.
///
/// # Errors
/// A file cannot be moved: the next start tries again.
pub(crate) fn commit(trust: &Path) -> anyhow::Result<()> {
    fs::rename(trust.join(NEXT), trust.join(COMMITTED))?;
    File::open(trust)?.sync_all()?;
    take_over(trust)
}

/// Replaces the earlier keys by the committed ones. The certificate of the earlier authority is
/// kept for `receipt check --trust`; the key of receipts, which the host may have lost, is not.
fn take_over(trust: &Path) -> anyhow::Result<()> {
    let committed = trust.join(COMMITTED);
    let statements = committed.join(STATEMENTS);
    if statements.exists() {
        let record: KeysRecord = serde_json::from_slice(&fs::read(&statements)?)?;
        if let Some(signed) = record.statements.last() {
            let statement: KeyStatement = serde_json::from_str(&signed.statement)?;
            let name = format!("authority-{}.pem", statement.sequence - 1);
            let previous = HEXLOWER.decode(statement.previous.as_bytes())?;
            save_authority(&trust.join(name), &previous)?;
        }
        match fs::remove_file(trust.join(RECEIPT_KEY)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&committed)? {
        names.push(entry?.file_name());
    }
    // The statements last: while they are there, all of the above is done again.
    names.sort_by_key(|name| name == STATEMENTS);
    for name in names {
        fs::rename(committed.join(&name), trust.join(&name))?;
    }
    File::open(trust)?.sync_all()?;
    fs::remove_dir(&committed)?;
    Ok(())
}

/// Reads a statement and checks that both authorities of `site` have signed it, and that it is the
/// one with this number which retires `pinned`, a certificate in DER.
///
/// # Errors
/// Code `keys`, with the fault of the statement.
pub(crate) fn check(
    site: &Name,
    pinned: &[u8],
    sequence: u64,
    signed: &SignedKeys,
) -> Result<KeyStatement, Problem> {
    let refused = |why: String| {
        let title = format!("a statement about the keys of site `{site}` is refused");
        Problem::new(ProblemCode::KeysRefused, title).because(why)
    };
    let statement: KeyStatement = serde_json::from_str(&signed.statement)
        .map_err(|error| refused(format!("it cannot be read: {error}")))?;
    let hex = |text: &str| {
        HEXLOWER.decode(text.as_bytes()).map_err(|_| refused("it is damaged".to_owned()))
    };
    let (previous, authority) = (hex(&statement.previous)?, hex(&statement.authority)?);
    if statement.site != *site || statement.sequence != sequence || previous != pinned {
        let why = format!(
            "it is number {} of site `{}`, and not number {sequence} by the authority that is \
             trusted",
            statement.sequence, statement.site
        );
        return Err(refused(why));
    }
    for (signer, signature) in [(&previous, &signed.by_previous), (&authority, &signed.by_new)] {
        let facts = verify_keys(signer, signed.statement.as_bytes(), &hex(signature)?);
        let facts = facts.map_err(|error| refused(error.to_string()))?;
        if facts.site != *site {
            return Err(refused(format!("an authority of site `{}` signed it", facts.site)));
        }
    }
    let keys = [&statement.capability_key, &statement.previous_capability_key];
    if keys.iter().any(|key| hex(key).is_ok_and(|key| key.len() != 32))
        || statement.revoked.len() > REVOKED_MAX
        || statement.revoked.iter().any(|revoked| revoked.key.parse::<Fingerprint>().is_err())
    {
        return Err(refused("it holds no sound keys".to_owned()));
    }
    Ok(statement)
}

/// Returns a pairing as it is once the site's statements are accepted that are new; `None` if none
/// is.
///
/// # Errors
/// Code `keys`: a statement is not good, does not follow the one before, or is another one with a
/// number that was accepted.
pub(crate) fn follow(pairing: &Pairing, offered: &KeysRecord) -> Result<Option<Pairing>, Problem> {
    if offered.statements.len() > LINKS_MAX
        || offered.statements.iter().any(|signed| signed.statement.len() > STATEMENT_BYTES_MAX)
    {
        let title = format!("site `{}` states too much about its keys", pairing.site);
        return Err(Problem::new(ProblemCode::KeysRefused, title));
    }
    let mut followed = pairing.clone();
    for signed in &offered.statements {
        let said: Result<KeyStatement, _> = serde_json::from_str(&signed.statement);
        if let Ok(said) = said
            && said.sequence <= followed.keys
        {
            let newest = said.sequence == followed.keys;
            if newest && said.authority != HEXLOWER.encode(&followed.ca) {
                return Err(two_statements(&pairing.site));
            }
            continue;
        }
        let statement = check(&pairing.site, &followed.ca, followed.keys + 1, signed)?;
        let decoded = |text: &str| {
            HEXLOWER.decode(text.as_bytes()).map_err(|error| {
                Problem::new(ProblemCode::KeysRefused, "a key is damaged").because(error)
            })
        };
        followed = Pairing {
            ca: decoded(&statement.authority)?,
            capability_key: decoded(&statement.capability_key)?,
            keys: statement.sequence,
            revoked: statement.revoked.into_iter().map(|revoked| revoked.key).collect(),
            ..followed
        };
    }
    Ok((followed != *pairing).then_some(followed))
}

fn two_statements(site: &Name) -> Problem {
    let title = format!("site `{site}` has stated two sets of keys");
    Problem::new(ProblemCode::KeysRefused, title)
        .because("another statement with this number was accepted before")
        .hint("compare fingerprints with its operators; unpair it and pair again if they differ")
}

/// Returns the keys that a pairing refuses.
pub(crate) fn revoked_of(pairing: &Pairing) -> BTreeSet<Fingerprint> {
    pairing.revoked.iter().filter_map(|key| key.parse().ok()).collect()
}

/// Returns the fingerprint of an authority's certificate, in words, or the reason why it has none.
pub(crate) fn fingerprint_text(ca: &[u8]) -> String {
    inspect_authority(&CertificateDer::from(ca))
        .map_or_else(|error| error.to_string(), |facts| facts.fingerprint.to_string())
}

#[cfg(test)]
mod tests;
