//! placeholder

pub mod trust;
