//! `penstock-lab`: sites of peers, and the networks between them, on one machine.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    penstock_lab::run()
}
