//! Signs receipts for the site, by its keys of the moment.

use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::receipt::{ReceiptBody, ReceiptSignature, ReceiptSigner, Role};

use crate::access::receipt_keys::Signer;
use crate::site::context::Site;
use crate::site_directory::TRUST_DIRECTORY;

/// The signer of a site: the authority that certifies its key may be replaced at any time.
pub(crate) struct SiteSigner {
    site: Arc<Site>,
    /// The signer by the keys with a number.
    known: Mutex<(u64, Arc<Signer>)>,
}

impl SiteSigner {
    /// # Errors
    /// The key of receipts cannot be read, made or certified.
    pub(crate) fn new(site: &Arc<Site>) -> anyhow::Result<Self> {
        let known = Mutex::new(Self::made(site)?);
        Ok(Self { site: Arc::clone(site), known })
    }

    fn made(site: &Site) -> anyhow::Result<(u64, Arc<Signer>)> {
        let (keys, trust) = (site.keys(), site.directory.join(TRUST_DIRECTORY));
        Ok((keys.sequence(), Arc::new(Signer::of_site(&keys.authority, &trust)?)))
    }

    fn now(&self) -> anyhow::Result<Arc<Signer>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != self.site.keys().sequence() {
            *known = Self::made(&self.site)?;
        }
        Ok(Arc::clone(&known.1))
    }
}

impl ReceiptSigner for SiteSigner {
    fn sign(&self, body: &ReceiptBody, role: Role) -> Result<ReceiptSignature, Problem> {
        let signer = self.now().map_err(|error| {
            let title = "the site's key of receipts cannot be used";
            Problem::new(ProblemCode::ReceiptKey, title).because(format!("{error:#}"))
        })?;
        signer.sign(body, role)
    }
}
