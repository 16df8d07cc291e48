//! The data set of a forecast: given by options, or counted in the source by a plan.

use std::io::{BufReader, Seek as _};

use penstock_api::endpoints::MAKE_PLAN;
use penstock_api::plan::{ItemKind, PlanReader};
use penstock_api::rest::SubmitRequest;
use penstock_api::transfer::{TransferOptions, TransferRequest};
use penstock_api::update::UpdateOptions;
use penstock_exit::{Failure, failure};
use penstock_proto::id::TransferId;

use super::arguments::ForecastArgs;
use super::extent::Extent;
use crate::client::Client;
use crate::commands::plan::nameless;
use crate::dataset::Counts;

/// Returns the classes of the files by their sizes.
///
/// # Errors
/// What the daemon answers; the plan cannot be read.
pub(super) fn classes(client: &Client, args: &ForecastArgs) -> anyhow::Result<Vec<Extent>> {
    if let (Some(files), Some(bytes)) = (args.files, args.bytes) {
        return Ok(vec![Extent { files, bytes }]);
    }
    let mut counts = Counts::default();
    if args.shape.is_empty() {
        count_source(client, args, &mut counts)?;
    } else {
        args.shape.iter().for_each(|shape| shape.count(&mut counts));
    }
    let of = |class: &crate::dataset::Class| Extent { files: class.files, bytes: class.bytes };
    Ok(counts.classes().iter().map(of).collect())
}

/// Has the daemon make a plan, and counts the files that it would move.
fn count_source(client: &Client, args: &ForecastArgs, counts: &mut Counts) -> anyhow::Result<()> {
    let lost = |error| Failure::io("read the plan that was made", error);
    let id = TransferId(rand::random());
    let (source, target) = (args.source.clone(), args.target.clone());
    let update = UpdateOptions { sync: args.sync, ..UpdateOptions::default() };
    let options = TransferOptions { update, ..TransferOptions::default() };
    let request = TransferRequest::new(id, source, target, options);
    let mut file = nameless().map_err(|error| Failure::io("make a file for the plan", error))?;
    client.post_into(&MAKE_PLAN.uri(&[]), &SubmitRequest::from(request), &mut file)?;
    file.rewind().map_err(lost)?;
    let (mut reader, _) = PlanReader::open(BufReader::new(&file)).map_err(failure)?;
    while let Some((_, item)) = reader.item().map_err(failure)? {
        if item.kind == ItemKind::File && item.action.moves() {
            counts.add(item.size);
        }
    }
    Ok(())
}
