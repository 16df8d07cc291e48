//! Hashes passwords by argon2id (RFC 9106), within a bound of memory and time.
//!
//! A hash takes 19 MiB and some 20 ms. Two are computed at a time, in memory that is kept for the
//! next ones; 16 more wait, and further ones are refused. A client that hangs up does not free its
//! place before its hash is done.

use std::sync::{Arc, Mutex, PoisonError};

use argon2::password_hash::phc::{Output, ParamsString, Salt};
use argon2::{Algorithm, Argon2, Block, Params, PasswordHash as Phc, Version};
use penstock_api::access::{PasswordHash, Secret};
use penstock_api::problem::{Problem, ProblemCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Hashes that are computed at a time, and those that may wait for that.
const AT_A_TIME: usize = 2;
const WAITING_MAX: usize = 16;
/// Seconds after which a client that got no place may ask again.
const BUSY_WAIT_S: u32 = 2;
/// Memory of a hash in KiB, passes over it, and lanes: the second choice of OWASP's Password
/// Storage Cheat Sheet, which asks for the least memory that is safe.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Highest parameters of a stored hash that are computed.
const STORED_MEMORY_KIB_MAX: u32 = 64 * 1024;
const STORED_PASSES_MAX: u32 = 8;
const STORED_LANES_MAX: u32 = 4;
/// Bytes of the salt and of the hash.
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// The hash for users without a password: no password matches it.
const NO_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
                       $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Computes hashes of passwords.
pub(super) struct Hasher {
    places: Arc<Semaphore>,
    running: Arc<Semaphore>,
    memory: Arc<Memory>,
}

/// Memory of hashes, as many blocks as are computed at a time. Memory that each thread allocated
/// for itself would stay with the allocator's arena of that thread.
#[derive(Default)]
struct Memory(Mutex<Vec<Vec<Block>>>);

/// A place among those that wait.
pub(super) struct Place {
    _held: OwnedSemaphorePermit,
}

impl Hasher {
    pub(super) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(AT_A_TIME + WAITING_MAX)),
            running: Arc::new(Semaphore::new(AT_A_TIME)),
            memory: Arc::default(),
        }
    }

    /// Returns a place for one hash.
    ///
    /// # Errors
    /// All are taken: code `busy`, with a time to wait.
    pub(super) fn enter(&self) -> Result<Place, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map(|held| Place { _held: held }).map_err(|_| {
            let title = "too many passwords are being checked";
            Problem::new(ProblemCode::Busy, title)
                .hint("repeat it in a moment")
                .retry_after(BUSY_WAIT_S)
        })
    }

    /// Returns whether a password has a stored hash. Without a stored one the answer is no, after
    /// the same time.
    ///
    /// # Errors
    /// The stored hash cannot be computed: code `internal`.
    pub(super) async fn verify(
        &self,
        place: Place,
        password: Secret,
        stored: Option<PasswordHash>,
    ) -> Result<bool, Problem> {
        self.run(place, move |memory| {
            let text = stored.as_ref().map_or(NO_HASH, |stored| stored.0.as_str());
            let is_it = memory.has(password.expose(), text)?;
            Ok(is_it && stored.is_some())
        })
        .await
    }

    /// Returns the hash of a password with a fresh salt.
    ///
    /// # Errors
    /// The library fails: code `internal`.
    pub(super) async fn hash(
        &self,
        place: Place,
        password: Secret,
    ) -> Result<PasswordHash, Problem> {
        self.run(place, move |memory| memory.hash(password.expose(), rand::random())).await
    }

    async fn run<T: Send + 'static>(
        &self,
        place: Place,
        work: impl FnOnce(&Memory) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Problem> {
        let running = Arc::clone(&self.running).acquire_owned().await;
        let memory = Arc::clone(&self.memory);
        let done = tokio::task::spawn_blocking(move || {
            // Both are held until the work is done, with or without a waiting caller.
            let _held = (place, running);
            work(&memory)
        });
        let failed = |why: String| {
            Problem::new(ProblemCode::Internal, "cannot compute the hash of a password")
                .because(why)
        };
        done.await.map_err(|error| failed(error.to_string()))?.map_err(failed)
    }
}

impl Memory {
    fn hash(&self, password: &str, salt: [u8; SALT_BYTES]) -> Result<PasswordHash, String> {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(HASH_BYTES)).map_err(text)?;
        let mut hash = [0; HASH_BYTES];
        self.compute(&params, password, &salt, &mut hash)?;
        let phc = Phc {
            algorithm: Algorithm::Argon2id.ident(),
            version: Some(Version::V0x13.into()),
            params: ParamsString::try_from(&params).map_err(text)?,
            salt: Some(Salt::new(&salt).map_err(text)?),
            hash: Some(Output::new(&hash).map_err(text)?),
        };
        Ok(PasswordHash(phc.to_string()))
    }

    fn has(&self, password: &str, stored: &str) -> Result<bool, String> {
        let stored = Phc::new(stored).map_err(text)?;
        let params = Params::try_from(&stored).map_err(text)?;
        let is_ours = stored.algorithm == Algorithm::Argon2id.ident()
            && stored.version == Some(Version::V0x13.into());
        let is_within = params.m_cost() <= STORED_MEMORY_KIB_MAX
            && params.t_cost() <= STORED_PASSES_MAX
            && params.p_cost() <= STORED_LANES_MAX;
        if !is_ours || !is_within {
            return Err("its parameters are beyond what this release computes".to_owned());
        }
        let (Some(salt), Some(expected)) = (&stored.salt, &stored.hash) else {
            return Err("it has no salt or no hash".to_owned());
        };
        let mut hash = vec![0; expected.len()];
        self.compute(&params, password, salt, &mut hash)?;
        // The comparison takes the same time wherever the two differ.
        Ok(Output::new(&hash).map_err(text)? == *expected)
    }

    fn compute(
        &self,
        params: &Params,
        password: &str,
        salt: &[u8],
        hash: &mut [u8],
    ) -> Result<(), String> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut blocks = kept().pop().unwrap_or_default();
        blocks.resize(params.block_count(), Block::default());
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
        let done =
            argon2.hash_password_into_with_memory(password.as_bytes(), salt, hash, &mut blocks);
        kept().push(blocks);
        done.map_err(text)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (C5): a password has its own hash only, in PHC form with the parameters that are
    /// promised; where no hash is stored, no password fits.
    #[tokio::test]
    async fn c5_a_password_has_its_own_hash_only() {
        let hasher = Hasher::new();
        let enter = || hasher.enter().unwrap();
        let good = Secret::new("correct horse battery");
        let hash = hasher.hash(enter(), good.clone()).await.unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.0);
        let stored = Some(hash);
        assert_eq!(hasher.verify(enter(), good.clone(), stored.clone()).await, Ok(true));
        assert_eq!(hasher.verify(enter(), Secret::new("x"), stored).await, Ok(false));
        assert_eq!(hasher.verify(enter(), good, None).await, Ok(false));
    }

    /// Promise (C5): a stored hash that asks for much memory or time is not computed.
    #[test]
    fn c5_stored_parameters_have_a_bound() {
        let memory = Memory::default();
        let other = |was: &str, is: &str| memory.has("x", &NO_HASH.replace(was, is));
        assert_eq!(memory.has("x", NO_HASH), Ok(false));
        assert_eq!(other("m=19456", "m=1024"), Ok(false));
        let beyond = [("m=19456", "m=65537"), ("t=2", "t=9"), ("p=1", "p=5")];
        let strange = [("argon2id", "argon2d"), ("v=19", "v=16"), ("$v=19", ""), ("m=", "n=")];
        for (was, is) in beyond.into_iter().chain(strange) {
            assert!(other(was, is).is_err(), "{is}");
        }
        assert!(memory.has("x", "").is_err());
    }

    /// Promise (C5): no more than 18 wait or are computed; a place is free again when its hash is
    /// done, and no earlier.
    #[tokio::test]
    async fn c5_those_that_wait_have_a_bound() {
        let hasher = Hasher::new();
        let places: Vec<_> =
            (0..AT_A_TIME + WAITING_MAX).map(|_| hasher.enter().ok().unwrap()).collect();
        let refused = hasher.enter().err().unwrap();
        assert_eq!((refused.status, refused.context.unwrap().retry_after_s), (503, Some(2)));
        let done = places.into_iter().map(|place| hasher.verify(place, Secret::new("x"), None));
        for is_it in futures_util::future::join_all(done).await {
            assert_eq!(is_it, Ok(false));
        }
        assert!(hasher.enter().is_ok());
        let kept = hasher.memory.0.lock().unwrap().len();
        assert!(kept <= AT_A_TIME, "{kept}");
    }
}
