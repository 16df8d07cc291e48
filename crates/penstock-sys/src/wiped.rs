//! Values whose memory is overwritten when they go.

use std::mem::{MaybeUninit, needs_drop};

use zeroize::Zeroize as _;

/// A value, such as a key of a library that leaves its keys in memory, whose bytes are overwritten
/// when it goes. It is never moved meanwhile.
pub struct Wiped<T>(Box<MaybeUninit<T>>);

impl<T> Wiped<T> {
    /// Takes a value that nothing has to be dropped of.
    pub fn new(value: T) -> Self {
        // Overwriting it in place of dropping it leaves nothing behind that drop would free.
        const { assert!(!needs_drop::<T>()) };
        Self(Box::new(MaybeUninit::new(value)))
    }

    /// Returns the value.
    pub fn get(&self) -> &T {
        // SAFETY: `new` has put a value there, and only `drop` takes it away.
        unsafe { self.0.assume_init_ref() }
    }
}

impl<T> Drop for Wiped<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
