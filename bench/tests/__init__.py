"""Tests of the benchmarks; `cargo xtask verify bench` runs them."""
