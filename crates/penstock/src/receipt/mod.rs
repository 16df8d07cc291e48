//! Receipts at the command line: signing them, and `penstock receipt check`, which needs neither a
//! daemon nor a network.

mod check;
mod findings;
mod json;
mod listed;
mod signature;
mod tree;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::receipt::{
    Receipt, ReceiptBody, ReceiptSignature, ReceiptSigner, Role, cannot_write, key_bytes,
    signed_bytes,
};
use penstock_api::transfer::{PathText, TransferRequest, TransferView};
use penstock_controller::manager::{ReceiptParts, receipt_body, receipt_text};
use penstock_controller::runner::RunFiles;
use penstock_net::trust::{ReceiptKey, SiteAuthority};
use penstock_proto::id::Name;

use crate::exit::failure;
use crate::exit::{self, ExitCode, Failure};
use crate::output::output_file::OutputFile;
use penstock_sys::now_seconds;

pub(crate) use check::CheckArgs;
use signature::USER_SITE;
pub(crate) use signature::check_signature;

/// File of the key, in a site's trust directory and in a user's state directory.
pub(crate) const KEY_FILE: &str = "receipt.key";

/// Receipts: checks what they say, without a daemon or a network
#[derive(clap::Args)]
pub(crate) struct ReceiptArgs {
    #[command(subcommand)]
    command: ReceiptCommand,
}

#[derive(clap::Subcommand)]
enum ReceiptCommand {
    /// Checks form and signatures of a receipt and, if asked, the data that it is about
    Check(CheckArgs),
}

/// Runs the command.
///
/// # Errors
/// The receipt cannot be read, or is not sound: exit 8.
pub(crate) fn run(args: &ReceiptArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        ReceiptCommand::Check(args) => check::run(args),
    }
}

/// Signs receipts with one key.
pub(crate) struct Signer {
    key: ReceiptKey,
    site: Name,
    /// Certificate of the authority and its certification of the key; empty for a user's own.
    authority: String,
    certification: String,
}

impl Signer {
    /// Signs for a site, with the key in its trust directory; made if there is none yet.
    ///
    /// # Errors
    /// The key cannot be read, written or certified.
    pub(crate) fn of_site(authority: &SiteAuthority, trust: &Path) -> anyhow::Result<Self> {
        let key = ReceiptKey::load_or_create(&trust.join(KEY_FILE))?;
        let text = data_encoding::HEXLOWER.encode(&key.public_key());
        let statement = key_bytes(authority.site(), &text);
        let certification = authority.certify_receipt_key(&statement)?;
        Ok(Self {
            key,
            site: authority.site().clone(),
            authority: data_encoding::BASE64.encode(authority.certificate()),
            certification: data_encoding::HEXLOWER.encode(&certification),
        })
    }

    /// Signs for a user, who copies on one host.
    ///
    /// # Errors
    /// The key cannot be read or written.
    pub(crate) fn of_user(state_home: &Path) -> anyhow::Result<Self> {
        let key = ReceiptKey::load_or_create(&state_home.join(KEY_FILE))?;
        let (authority, certification) = (String::new(), String::new());
        Ok(Self { key, site: USER_SITE.parse()?, authority, certification })
    }
}

impl ReceiptSigner for Signer {
    fn sign(&self, body: &ReceiptBody, role: Role) -> Result<ReceiptSignature, Problem> {
        let mut signature = ReceiptSignature {
            role,
            site: self.site.clone(),
            vouches: role.vouches(),
            algorithm: "ed25519".to_owned(),
            key: data_encoding::HEXLOWER.encode(&self.key.public_key()),
            authority: self.authority.clone(),
            certification: self.certification.clone(),
            signature: String::new(),
        };
        let body = serde_json::to_value(body).map_err(|error| cannot_write(&error))?;
        let bytes = signed_bytes(&body, &signature).map_err(|error| cannot_write(&error))?;
        signature.signature = data_encoding::HEXLOWER.encode(&self.key.sign(&bytes));
        Ok(signature)
    }
}

/// Makes the receipt of a copy on this host, signed in both roles by the user's key.
///
/// # Errors
/// The copy left no facts; the key or the file cannot be written.
pub(crate) fn write_own(
    to: OutputFile,
    signer: &Signer,
    journal: &Path,
    view: &TransferView,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let request = TransferRequest {
        id: view.id,
        source: view.source.clone(),
        target: view.target.clone(),
        options: view.options.clone(),
    };
    let parts = ReceiptParts {
        request: &request,
        root: PathText::default(),
        state: view.state,
        exit: view.exit.unwrap_or(Exit::Unclassified),
        submitted: now_seconds().saturating_sub(view.progress.seconds as u64),
        progress: &view.progress,
        failures: &view.failures,
        durable_by: &view.durable_by,
    };
    let facts = RunFiles::of(journal).facts;
    let Some(body) = receipt_body(&facts, &parts).map_err(failure)? else {
        let message = "the copy ended before a receipt could be made";
        return Err(Failure::new(ExitCode::Fatal, message).into());
    };
    let signatures = [Role::Source, Role::Target].map(|role| signer.sign(&body, role));
    let signatures = signatures.into_iter().collect::<Result<Vec<_>, _>>().map_err(failure)?;
    let receipt = Receipt { receipt: body, signatures };
    let text = receipt_text(&receipt).map_err(failure)?;
    let name = to.name().to_owned();
    to.write(stop, |out| Ok(out.write_all(&text)?))?;
    exit::warn(&format!("receipt in `{}`: `penstock receipt check` checks it", name.display()));
    Ok(())
}

/// A signature that another site gave, checked against the authority that is pinned for it.
///
/// # Errors
/// It is not sound, or of another site or role.
pub(crate) fn check_countersignature(
    body: &ReceiptBody,
    signature: &ReceiptSignature,
    pinned: penstock_net::trust::Fingerprint,
) -> Result<(), Problem> {
    let value = serde_json::to_value(body).map_err(|error| cannot_write(&error))?;
    let refused = |why: String| {
        let title = format!("site `{}` gave a signature that is not good", body.source.site);
        Problem::new(ProblemCode::ReceiptSignature, title).because(why)
    };
    let signed = check_signature(&value, signature).map_err(refused)?;
    let fits = signature.role == Role::Source
        && signature.site == body.source.site
        && signed.authority == Some(pinned);
    if fits { Ok(()) } else { Err(refused("it is of another site or role".to_owned())) }
}
