//! Ways to a source.

use crate::lane::dialer::Dialer;
use crate::stores::guard::Guard;
use penstock_io::store::Source;
use std::sync::Arc;

/// How lanes reach a source.
pub(crate) enum Reach {
    /// This host reads the source's store itself.
    Local { source: Source, root: Vec<u8>, guard: Box<Guard> },
    /// Over lanes.
    Remote { dialer: Arc<Dialer> },
}
