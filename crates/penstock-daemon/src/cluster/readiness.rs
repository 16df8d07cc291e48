//! Readiness: whether a peer serves its site, so that a load balancer sends users to it.
//!
//! A peer that answers at all lives (`/healthz`). It is ready (`/readyz`) if requests of users can
//! be answered through it. The reason is public, so it names no host and no store.

/// The facts by which a peer is ready or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readiness {
    /// True if this peer leads, or knows which other one does.
    pub(super) has_controller: bool,
    /// True if this peer can take part in its site: etcd answers, and its release fits.
    pub(super) is_fit: bool,
    /// True if this peer is to have no new work.
    pub(super) is_draining: bool,
    /// True once this peer has looked at its stores.
    pub(super) are_stores_seen: bool,
}

/// The reason why a peer does not serve its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unready {
    #[error("this peer is draining")]
    Draining,
    #[error("this peer cannot take part in its site")]
    Unfit,
    #[error("no controller of the site is known")]
    NoController,
    #[error("this peer has not looked at its stores yet")]
    StoresUnseen,
}

impl Readiness {
    /// Checks that a peer serves its site.
    ///
    /// # Errors
    /// The first reason why it does not, in the order of [`Unready`].
    pub(super) fn check(self) -> Result<(), Unready> {
        let faults = [
            (self.is_draining, Unready::Draining),
            (!self.is_fit, Unready::Unfit),
            (!self.has_controller, Unready::NoController),
            (!self.are_stores_seen, Unready::StoresUnseen),
        ];
        let first = faults.into_iter().find(|(is_so, _)| *is_so);
        first.map_or(Ok(()), |(_, why)| Err(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a peer is ready if there is no reason against it, and each such reason is reported.
    #[test]
    fn a_peer_is_ready_if_nothing_speaks_against_it() {
        let ready = Readiness {
            has_controller: true,
            is_fit: true,
            is_draining: false,
            are_stores_seen: true,
        };
        assert_eq!(ready.check(), Ok(()));
        for (readiness, why) in [
            (Readiness { is_draining: true, is_fit: false, ..ready }, Unready::Draining),
            (Readiness { is_fit: false, has_controller: false, ..ready }, Unready::Unfit),
            (Readiness { has_controller: false, ..ready }, Unready::NoController),
            (Readiness { are_stores_seen: false, ..ready }, Unready::StoresUnseen),
        ] {
            assert_eq!(readiness.check(), Err(why));
        }
    }
}
