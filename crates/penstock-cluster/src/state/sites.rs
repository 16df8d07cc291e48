//! Pairings in SQLite.

use std::net::SocketAddr;

use penstock_proto::id::Name;
use rusqlite::{OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

use super::sqlite::{Commit, SqliteState, StateError, from_sql, to_sql};

/// A site that this one is paired with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairing {
    /// Its name.
    pub site: Name,
    /// Its CA certificate, DER: the only one trusted for this site (D4).
    pub ca: Vec<u8>,
    /// Public key that checks its capabilities (C4).
    pub capability_key: Vec<u8>,
    /// Addresses on which its peers accept lanes, and its controller requests.
    pub addresses: Vec<SocketAddr>,
    /// Seconds since 1970.
    pub paired: u64,
    /// Number of the statement that made these its keys; 0 for its first ones.
    pub keys: u64,
    /// Keys of its peers that are refused: SHA-256, in hex.
    pub revoked: Vec<String>,
    /// Number of the keys of the own site that it has confirmed.
    pub told: u64,
}

impl SqliteState {
    /// Returns all pairings, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn pairings(&self) -> Result<Vec<Pairing>, StateError> {
        let failed = StateError::statement("list the pairings");
        let reader = self.read();
        let mut query = reader
            .prepare_cached(
                "SELECT site, ca, capability_key, addresses, paired, keys, revoked, told \
                 FROM pairing ORDER BY site",
            )
            .map_err(&failed)?;
        let rows = query
            .query_map([], columns)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(failed)?;
        rows.into_iter().map(pairing_of).collect()
    }

    /// Returns one pairing.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn pairing(&self, site: &Name) -> Result<Option<Pairing>, StateError> {
        let row = self
            .read()
            .query_row(
                "SELECT site, ca, capability_key, addresses, paired, keys, revoked, told \
                 FROM pairing WHERE site = ?1",
                [site.as_str()],
                columns,
            )
            .optional()
            .map_err(StateError::statement("read a pairing"))?;
        row.map(pairing_of).transpose()
    }

    /// Stores a pairing, or replaces the one with the same site. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn pair(&self, pairing: &Pairing) -> Result<(), StateError> {
        let addresses = serde_json::to_string(&pairing.addresses).map_err(damaged)?;
        let revoked = serde_json::to_string(&pairing.revoked).map_err(damaged)?;
        let what = "store a pairing";
        self.write(what, Commit::Durable, |transaction| {
            transaction
                .execute(
                    "INSERT OR REPLACE INTO pairing VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    params![
                        pairing.site.as_str(),
                        pairing.ca,
                        pairing.capability_key,
                        addresses,
                        to_sql(pairing.paired),
                        to_sql(pairing.keys),
                        revoked,
                        to_sql(pairing.told)
                    ],
                )
                .map_err(StateError::statement(what))?;
            Ok(())
        })
    }

    /// Forgets a pairing; whether there was one. Durable.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn unpair(&self, site: &Name) -> Result<bool, StateError> {
        let what = "remove a pairing";
        self.write(what, Commit::Durable, |transaction| {
            transaction
                .execute("DELETE FROM pairing WHERE site = ?1", [site.as_str()])
                .map(|rows| rows > 0)
                .map_err(StateError::statement(what))
        })
    }
}

type Columns = (String, Vec<u8>, Vec<u8>, String, i64, i64, String, i64);

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
        row.get(7)?,
    ))
}

fn pairing_of(columns: Columns) -> Result<Pairing, StateError> {
    let (site, ca, capability_key, addresses, paired, keys, revoked, told) = columns;
    let damage = |why: String| StateError::Damaged { what: "pairing", why };
    Ok(Pairing {
        site: site.parse().map_err(|error| damage(format!("{error}")))?,
        ca,
        capability_key,
        addresses: serde_json::from_str(&addresses).map_err(damaged)?,
        paired: from_sql(paired),
        keys: from_sql(keys),
        revoked: serde_json::from_str(&revoked).map_err(damaged)?,
        told: from_sql(told),
    })
}

fn damaged(error: serde_json::Error) -> StateError {
    StateError::Damaged { what: "pairing", why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(directory: &tempfile::TempDir) -> SqliteState {
        SqliteState::open(&directory.path().join("state.db")).unwrap()
    }

    /// D4: a pairing is kept per site and can be taken back.
    #[test]
    fn d4_pairings_are_kept_per_site() {
        let directory = tempfile::tempdir().unwrap();
        let state = state(&directory);
        let pairing = Pairing {
            site: "hpc".parse().unwrap(),
            ca: vec![1, 2],
            capability_key: vec![3],
            addresses: vec!["127.0.0.1:7444".parse().unwrap()],
            paired: 5,
            keys: 2,
            revoked: vec!["ab".to_owned()],
            told: 1,
        };
        state.pair(&pairing).unwrap();
        assert_eq!(state.pairings().unwrap(), vec![pairing.clone()]);
        assert_eq!(state.pairing(&pairing.site).unwrap(), Some(pairing.clone()));
        assert!(state.unpair(&pairing.site).unwrap());
        assert!(!state.unpair(&pairing.site).unwrap());
    }
}
