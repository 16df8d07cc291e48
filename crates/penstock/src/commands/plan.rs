//! `penstock transfer plan`, and `transfer submit` with `--dry-run` or `--plan`.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use penstock_api::endpoints::{MAKE_PLAN, SUBMIT_TRANSFER, UPLOAD_PLAN};
use penstock_api::plan::{PlanReader, location_of};
use penstock_api::rest::{SubmitRequest, TransferView};
use penstock_api::transfer::{Location, TransferOptions, TransferRequest};
use penstock_proto::id::TransferId;

use crate::client::Client;
use crate::options::limits::PaceArgs;
use crate::options::plan::{planned_options, read_plan};
use crate::options::preserve::PreserveArgs;
use crate::options::select::SelectArgs;
use crate::options::update::UpdateArgs;
use crate::output::output_file::OutputFile;
use crate::output::plan::{self, Show};
use penstock_exit::failure;
use penstock_exit::{self as exit, ExitCode, Failure};

/// Bytes of a plan that are sent at a time.
const PART_BYTES: u64 = 4 << 20;

/// Arguments of `penstock transfer plan`: those that decide what is done with which item, and the
/// limits that its forecast knows.
#[derive(clap::Args)]
#[command(after_help = exit::help(&ExitCode::ALL))]
pub(crate) struct PlanningArgs {
    /// The source, SITE:STORE/PATH. A trailing slash means the contents of the directory
    source: Location,
    /// The target, SITE:STORE/PATH
    target: Location,
    /// Write the plan to FILE, for `transfer submit --plan`, and print only its totals
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also list the items that would not change, with the reason
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
    // Groups with headings of their own, behind all that have none.
    #[command(flatten)]
    update: UpdateArgs,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    paces: PaceArgs,
    #[command(flatten)]
    preserve: PreserveArgs,
}

/// Runs `penstock transfer plan`.
///
/// # Errors
/// As [`make`]; the options contradict each other.
pub(crate) fn run(client: &Client, args: &PlanningArgs) -> anyhow::Result<ExitCode> {
    let chosen = args.select.read()?;
    let options = TransferOptions {
        update: args.update.options(chosen.is_partial())?,
        files_from: chosen.files_from,
        select: chosen.select,
        limits: args.paces.limits(),
        preserve: args.preserve.preserve()?,
        ..TransferOptions::default()
    };
    let id = TransferId(rand::random());
    let (source, target) = (args.source.clone(), args.target.clone());
    let request = TransferRequest::new(id, source, target, options);
    make(client, request, args.out.as_deref(), Show::choose(args.json, args.verbose))
}

/// Has a plan made: writes it to `out`, or shows it.
///
/// # Errors
/// What the daemon answers; the plan cannot be written.
pub(crate) fn make(
    client: &Client,
    request: TransferRequest,
    out: Option<&Path>,
    show: Show,
) -> anyhow::Result<ExitCode> {
    let out = out.map(OutputFile::open).transpose()?;
    let forecaster = format!("penstock forecast {} {}", request.source, request.target);
    let lost = |error| Failure::io("read the plan that was made", error);
    let mut file = nameless().map_err(|error| Failure::io("make a file for the plan", error))?;
    client.post_into(&MAKE_PLAN.uri(&[]), &SubmitRequest::from(request), &mut file)?;
    file.rewind().map_err(lost)?;
    let Some(out) = out else { return plan::show(file, show) };
    let (reader, _) = PlanReader::open(BufReader::new(&file)).map_err(failure)?;
    let end = reader.finish().map_err(failure)?;
    file.rewind().map_err(lost)?;
    out.write(&AtomicBool::new(false), |out| Ok(io::copy(&mut file, out).map(drop)?))?;
    let mut text = Vec::new();
    plan::write_end(&mut text, &end, Some(&forecaster))?;
    exit::warn(String::from_utf8_lossy(&text).trim());
    plan::outcome(&end)
}

/// A file for a while: nobody else can open it.
pub(crate) fn nameless() -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("penstock-plan-{:032x}", rand::random::<u128>()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Submits a transfer that does what the plan in `file` says; `request` says how.
///
/// # Errors
/// The plan is not whole, or none of a transfer; what the daemon answers.
pub(crate) fn follow(
    client: &Client,
    file: &Path,
    mut request: TransferRequest,
) -> anyhow::Result<TransferView> {
    let (head, digest) = read_plan(file)?;
    let place = |text| {
        location_of(text).map_err(|cause| {
            let message = format!("`{}` is a plan of a copy", file.display());
            let hint = "follow it with `penstock copy --plan FILE`";
            Failure::new(ExitCode::Usage, message).caused_by(cause).hint(hint)
        })
    };
    (request.source, request.target) = (place(&head.source)?, place(&head.target)?);
    request.options = planned_options(&head, digest, request.options)?;
    let failed = |error| Failure::io(format!("read the plan `{}`", file.display()), error);
    let mut input = File::open(file).map_err(failed)?;
    let mut offset = 0;
    loop {
        let mut part = Vec::new();
        (&mut input).take(PART_BYTES).read_to_end(&mut part).map_err(failed)?;
        if part.is_empty() {
            break;
        }
        let (site, store) = (&request.target.site, &request.target.store);
        let uri = UPLOAD_PLAN.uri(&[&request.id]);
        let uri = uri.query("site", site).query("store", store).query("offset", offset);
        offset += part.len() as u64;
        client.post_bytes(&uri, part)?;
    }
    client.post(&SUBMIT_TRANSFER.uri(&[]), &SubmitRequest::from(request))
}
