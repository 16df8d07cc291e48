# shellcheck shell=bash
# Sourced by the other scripts and by make: puts the tools that setup.sh installs within reach.
# Must not print, and must not fail on a machine where nothing is installed yet.

: "${HOME:=$(cd ~ 2>/dev/null && pwd || echo /root)}"
export HOME
PENSTOCK_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PENSTOCK_ROOT
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PENSTOCK_ROOT/target/tools/bin:$PATH"

# The Rust that is installed where none is: newer ones build as well, but may lint differently.
RUST_TESTED=1.95.0

# The oldest compiler that builds the workspace, as Cargo.toml says.
rust_needed() {
    sed -n 's/^rust-version = "\(.*\)"/\1/p' "$PENSTOCK_ROOT/Cargo.toml"
}

# at_least VERSION NEEDED: whether the first is as new as the second.
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# The version of the cargo that would run, or nothing.
cargo_version() {
    cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p'
}

# Where rustup's default is missing or too old, the tested one is used, and the default left alone.
if [ -z "${RUSTUP_TOOLCHAIN:-}" ] && command -v rustup >/dev/null 2>&1; then
    if ! at_least "$(cargo_version)" "$(rust_needed)"; then
        export RUSTUP_TOOLCHAIN=$RUST_TESTED
    fi
fi
