//! `penstock receipt check`: what a receipt says holds, or it says what does not.

use std::fs;
use std::path::{Path, PathBuf};

use penstock_api::receipt::{
    RECEIPT_BYTES_MAX, RECEIPT_VERSION, Receipt, ReceiptBody, ReceiptSignature, Role,
};
use penstock_controller::root::RootHasher;
use penstock_net::trust::{AuthorityFacts, read_authorities};
use penstock_proto::units::{counted, format_bytes};

use super::findings::Findings;
use super::json;
use super::listed::against_list;
use super::tree::{TreeFound, read_tree};
use penstock_daemon::access::receipt_keys::{Signed, check_signature};
use penstock_exit::{self as exit, ExitCode, Failure};

/// Arguments of `penstock receipt check`.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "all that was checked holds"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, "wrong command line, or --trust names no authority"),
    (ExitCode::SomeFailed, "something cannot be judged (UNKNOWN), or read"),
    (ExitCode::Fatal, "the receipt, the list or the directory cannot be read"),
    (ExitCode::Integrity, "something does not hold (WRONG)"),
]))]
pub(crate) struct CheckArgs {
    /// The receipt
    file: PathBuf,
    /// Read this directory or single file, and compare it with the root digest
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// The digest list of the transfer (--write-digests, `transfer digests`). It must match the
    /// root digest. With --against, the directory may contain more than the receipt covers; the
    /// extra files are listed
    #[arg(long, value_name = "FILE")]
    digest_list: Option<PathBuf>,
    /// Trust only the site whose authority is in this file (`trust/authority.pem` of the site), or
    /// the user with this key of 64 hexadecimal digits. May be given more than once
    #[arg(long, value_name = "CERT")]
    trust: Vec<PathBuf>,
}

/// Runs the command; blocks until everything is checked.
pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut findings = Findings { wrong: 0, unknown: 0 };
    let trusted = Trusted::read(&args.trust)?;
    let (receipt, body) = match read(&args.file)? {
        Ok(read) => read,
        Err(why) => {
            findings.wrong(&format!("form: {why}"))?;
            return Ok(ExitCode::Integrity);
        }
    };
    let said = &receipt.receipt;
    findings.good(&format!(
        "form: receipt of transfer {}, {} -> {}: {}, {}, {} failed",
        said.id.short(),
        said.source,
        said.target,
        counted(said.facts.files, "file"),
        format_bytes(said.facts.bytes),
        said.facts.failed
    ))?;
    for signature in &receipt.signatures {
        signature_of(&mut findings, &trusted, said, &body, signature)?;
    }
    who_signed(&mut findings, &trusted, said, &receipt.signatures)?;
    if let Some(list) = &args.digest_list {
        against_list(&mut findings, said, list, args.against.as_deref())?;
    } else if let Some(directory) = &args.against {
        against(&mut findings, said, directory)?;
    }
    Ok(match findings {
        Findings { wrong: 1.., .. } => ExitCode::Integrity,
        Findings { unknown: 1.., .. } => ExitCode::SomeFailed,
        _ => ExitCode::Done,
    })
}

/// The reason why a file is no receipt.
#[derive(Debug, thiserror::Error)]
enum NoReceipt {
    #[error("it is too long")]
    TooLong,
    #[error("it is not JSON: {0}")]
    NoJson(serde_json::Error),
    #[error("it is not a receipt: {0}")]
    Content(serde_json::Error),
    #[error("version {0} is not known here")]
    Version(u32),
    #[error("it holds values that receipts do not hold")]
    Values,
}

/// The receipt, and its body as it stands in the JSON; or why it is none.
type Read = Result<(Receipt, serde_json::Value), NoReceipt>;

fn read(path: &Path) -> anyhow::Result<Read> {
    let failed = |error| {
        Failure::io(format!("read the receipt `{}`", path.display()), error)
            .hint("give the file that `--receipt` or `penstock transfer receipt` has written")
    };
    if fs::metadata(path).map_err(failed)?.len() > RECEIPT_BYTES_MAX as u64 {
        return Ok(Err(NoReceipt::TooLong));
    }
    Ok(parse(&fs::read(path).map_err(failed)?))
}

/// Returns a receipt whose signatures are sound, and that the target has signed.
///
/// # Errors
/// The reason why it proves nothing, for people.
pub(crate) fn sound(text: &[u8]) -> Result<Receipt, String> {
    let (receipt, body) = parse(text).map_err(|why| why.to_string())?;
    let said = &receipt.receipt;
    for signature in &receipt.signatures {
        let expected = match signature.role {
            Role::Source => &said.source.site,
            Role::Target => &said.target.site,
        };
        if signature.site != *expected {
            return Err(format!("site `{}` has signed for `{expected}`", signature.site));
        }
        check_signature(&body, signature).map_err(|why| why.to_string())?;
    }
    if !receipt.signatures.iter().any(|signature| signature.role == Role::Target) {
        return Err(format!("the target, site `{}`, has not signed", said.target.site));
    }
    Ok(receipt)
}

fn parse(text: &[u8]) -> Read {
    let value = json::read(text).map_err(NoReceipt::NoJson)?;
    let body = value.get("receipt").cloned().unwrap_or_default();
    let receipt: Receipt = serde_json::from_value(value).map_err(NoReceipt::Content)?;
    if receipt.receipt.version != RECEIPT_VERSION {
        return Err(NoReceipt::Version(receipt.receipt.version));
    }
    // What is signed is what stands there, not what we would read into it.
    match serde_json::to_value(&receipt.receipt) {
        Ok(said) if said == body => Ok((receipt, body)),
        _ => Err(NoReceipt::Values),
    }
}

/// Whom to believe.
struct Trusted {
    authorities: Vec<AuthorityFacts>,
    keys: Vec<String>,
}

impl Trusted {
    fn read(given: &[PathBuf]) -> anyhow::Result<Self> {
        let mut trusted = Self { authorities: Vec::new(), keys: Vec::new() };
        for path in given {
            let text = path.to_string_lossy();
            if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                trusted.keys.push(text.to_lowercase());
                continue;
            }
            let authorities = read_authorities(path).map_err(|error| {
                let message = format!("`{}` holds no site's authority", path.display());
                Failure::new(ExitCode::Usage, message).caused_by(error).hint(
                    "give `trust/authority.pem` of the site, or a user's key of 64 hexadecimal \
                     digits",
                )
            })?;
            trusted.authorities.extend(authorities);
        }
        Ok(trusted)
    }

    fn is_empty(&self) -> bool {
        self.authorities.is_empty() && self.keys.is_empty()
    }

    fn covers(&self, signature: &ReceiptSignature, signed: &Signed) -> bool {
        match signed.authority {
            Some(fingerprint) => self
                .authorities
                .iter()
                .any(|facts| facts.site == signature.site && facts.fingerprint == fingerprint),
            None => self.keys.contains(&signature.key),
        }
    }
}

fn signature_of(
    findings: &mut Findings,
    trusted: &Trusted,
    said: &ReceiptBody,
    body: &serde_json::Value,
    signature: &ReceiptSignature,
) -> Result<(), Failure> {
    let role = match signature.role {
        Role::Source => "source",
        Role::Target => "target",
    };
    let who = format!("signature of the {role}, site `{}`", signature.site);
    let expected = match signature.role {
        Role::Source => &said.source.site,
        Role::Target => &said.target.site,
    };
    if signature.site != *expected {
        return findings.wrong(&format!("{who}: the {role} is site `{expected}`"));
    }
    let signed = match check_signature(body, signature) {
        Ok(signed) => signed,
        Err(why) => return findings.wrong(&format!("{who}: {why}")),
    };
    let by = match &signed.authority {
        Some(fingerprint) => format!("certified by the authority {fingerprint}"),
        None => format!("by a user's key {} that no site certifies", signature.key),
    };
    if trusted.is_empty() {
        findings.good(&format!("{who}: sound, {by}"))?;
        return findings.note(&format!(
            "whether that is `{}`, you must know: give its certificate with --trust",
            signature.site
        ));
    }
    if trusted.covers(signature, &signed) {
        findings.good(&format!("{who}: sound, {by}, which you trust"))
    } else {
        findings.wrong(&format!("{who}: {by}, which is not among those of --trust"))
    }
}

/// Whether both sides have signed, as they should.
fn who_signed(
    findings: &mut Findings,
    trusted: &Trusted,
    said: &ReceiptBody,
    signatures: &[ReceiptSignature],
) -> Result<(), Failure> {
    let signed = |role: Role| signatures.iter().any(|signature| signature.role == role);
    if !signed(Role::Target) {
        findings.wrong(&format!("the target, site `{}`, has not signed", said.target.site))?;
    }
    if !signed(Role::Source) {
        let site = &said.source.site;
        let word = "has not signed: what was sent is the target's word alone";
        // Whoever names the source's authority counts on its signature.
        if trusted.authorities.iter().any(|facts| facts.site == *site) {
            findings.wrong(&format!("the source, site `{site}`, which you trust, {word}"))?;
        } else {
            findings.unknown(&format!("the source, site `{site}`, {word}"))?;
        }
    }
    let mut keys = signatures.iter().map(|signature| &signature.key);
    if signatures.len() == 2 && keys.next() == keys.next() {
        findings.note("both signatures are by one key: source and target were one hand")?;
    }
    Ok(())
}

/// Computes the root digest of what is there now.
fn against(findings: &mut Findings, said: &ReceiptBody, path: &Path) -> anyhow::Result<()> {
    if said.facts.root_digest.is_none() {
        findings
            .unknown("content: the receipt has no root digest, for XXH3 gives none of files")?;
        return Ok(());
    }
    if said.facts.sparse_files > 0 {
        findings.unknown(&format!(
            "content: the digests of {} files with holes are not standard ones, and not in the \
             root digest; with --receipt or --write-digests they would be",
            said.facts.sparse_files
        ))?;
        return Ok(());
    }
    let mut root = RootHasher::new(&std::env::temp_dir());
    let TreeFound { bytes, problem, unfinished, first } =
        read_tree(path, &mut |path, digest| root.add(digest, path))?;
    if let Some(error) = problem {
        let message = format!("`{}` could not be read whole", path.display());
        return Err(Failure::new(ExitCode::SomeFailed, message)
            .caused_by(error)
            .hint("make all of it readable for this user, and check its disk")
            .into());
    }
    if unfinished > 0 {
        findings.unknown(&format!(
            "content: unfinished files of copies are left out, {unfinished} in all: {first}"
        ))?;
    }
    let files = root.count();
    let found = root.finish().map_err(|error| Failure::io("sort the leaves", error))?.to_hex();
    judge(findings, said, path, (files, bytes), &found)
}

/// Tells whether the root digest of what is there, `found`, is that of the receipt.
fn judge(
    findings: &mut Findings,
    said: &ReceiptBody,
    path: &Path,
    (files, bytes): (u64, u64),
    found: &str,
) -> anyhow::Result<()> {
    let there = format!("{}, {}", counted(files, "file"), format_bytes(bytes));
    let expected = said.facts.root_digest.as_deref().unwrap_or_default();
    if found == expected {
        findings.good(&format!("content: `{}` has the root digest: {there}", path.display()))?;
        return Ok(());
    }
    if said.facts.skipped > 0 && files > said.facts.root_files {
        let skipped = said.facts.skipped;
        findings.unknown(&format!(
            "content: `{}` holds more than what was moved, {there}: {} passed over or left as it \
             was, and not in the root digest",
            path.display(),
            counted(skipped, "item")
        ))?;
        findings.note(
            "`--digest-list` with the digest list of the transfer shows which files \
                       differ",
        )?;
        return Ok(());
    }
    findings.wrong(&format!(
        "content: `{}` is not what was received: {there}, root digest {found}; the receipt says \
         {}, {}, {expected}",
        path.display(),
        counted(said.facts.root_files, "file"),
        format_bytes(said.facts.root_bytes)
    ))?;
    Ok(())
}
