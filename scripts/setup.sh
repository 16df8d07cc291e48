#!/usr/bin/env bash
# Installs what is missing to build, test or demonstrate Penstock on Debian and Ubuntu.
#
# Usage: scripts/setup.sh [build|packages|test|demo]    (default: test)
#
#   build  a C compiler and Rust: all that the build needs, as SQLite, BLAKE3 and AWS-LC are
#          compiled from source that their crates bring along
#   packages
#          also what makes packages of Debian and Red Hat, and a Rust that builds for other hosts
#   test   also file systems to break, MooseFS, network namespaces, cargo-deny, an OpenID provider,
#          b3sum and others that judge checksums, and Node and Chromium for the web page
#   demo   also b3sum, the verifier that is not ours
#
# May be run any number of times: what is there is left alone. Packages need root, or sudo.
# Tools without a package go to target/tools. Rust comes from the first of these that has one new
# enough: PATH, rustup, the release's packages (cargo, then cargo-web, then rustup), and the
# installer of https://rustup.rs, which writes to the user's home alone.
# Exit codes: 0 all there, 1 an installation failed, 2 something must be installed by hand.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

say() { printf 'setup: %s\n' "$*" >&2; }

# by_hand WHAT HOW: ends with what the user has to do.
by_hand() {
    printf 'error: %s\nhint:  %s\n' "$1" "$2" >&2
    exit 2
}

apt_is_fresh=no
# Runs apt-get as root, after one update of its lists.
apt_install() {
    command -v apt-get >/dev/null ||
        by_hand "this machine has no apt-get" "install with its own package manager: $*"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null ||
            by_hand "installing packages needs root" "as root: apt-get install $*"
        as_root=(sudo)
    fi
    apt_update
    say "installing $*"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "$@" >&2
}

apt_update() {
    if [ "$apt_is_fresh" = no ]; then
        local as_root=()
        [ "$(id -u)" -eq 0 ] || as_root=(sudo)
        # Lists of one mirror may be stale or gone; the installation says what really lacks.
        "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update -q >&2 || true
        apt_is_fresh=yes
    fi
}

# The version of a package that apt would install, without revision, or nothing.
apt_candidate() {
    command -v apt-cache >/dev/null || return 0
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9.]*\).*/\1/p'
}

# want COMMAND PACKAGE: notes the package if the command is missing.
missing=()
want() {
    # Tools for root may lie outside a user's PATH.
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

want_packages() {
    want cc build-essential
    want c++ build-essential
    want make build-essential
    want curl curl
    [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
    if [ "$1" = test ] || [ "$1" = packages ]; then
        want dpkg-deb dpkg
        want readelf binutils
        want rpmbuild rpm
        want python3 python3
        python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    fi
    if [ "$1" = test ]; then
        want mkfs.xfs xfsprogs
        want mkfs.ext4 e2fsprogs
        want mkfs.btrfs btrfs-progs
        want losetup mount
        want mount mount
        want ip iproute2
        want sshd openssh-server
        want ssh openssh-client
        want find findutils
        want rsync rsync
        want setfacl acl
        want setfattr attr
        want getcap libcap2-bin
        want openssl openssl
        want diff diffutils
        want rsync rsync
        want gzip gzip
        want xxhsum xxhash
        want etcd etcd-server
        want etcdctl etcd-client
        want promtool prometheus
        want systemd-analyze systemd
        want tmux tmux
    fi
    if [ "${#missing[@]}" -gt 0 ]; then
        mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
        apt_install "${missing[@]}"
    fi
}

# Makes sure of a cargo that is new enough.
want_rust() {
    local needed
    needed=$(rust_needed)
    if ! at_least "$(cargo_version)" "$needed"; then
        command -v rustup >/dev/null 2>&1 || want_rust_packages "$needed"
        if command -v rustup >/dev/null 2>&1; then
            install_toolchain
        fi
    fi
    at_least "$(cargo_version)" "$needed" ||
        by_hand "Rust $needed or later is needed, there is $(cargo_version || true)" \
            "rustup toolchain install $RUST_TESTED"
    if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
        command -v rustup >/dev/null 2>&1 ||
            by_hand "clippy or rustfmt is missing" "install them as your Rust was installed"
        rustup component add clippy rustfmt >&2
    fi
}

install_toolchain() {
    say "installing Rust $RUST_TESTED with rustup"
    rustup toolchain install "$RUST_TESTED" --profile minimal -c clippy -c rustfmt >&2
    export RUSTUP_TOOLCHAIN=$RUST_TESTED
}

# want_rust_packages NEEDED: a cargo of that version or a rustup, from the release if it has one.
want_rust_packages() {
    apt_update
    if at_least "$(apt_candidate cargo)" "$1"; then
        apt_install cargo rustc rust-clippy rustfmt
    elif at_least "$(apt_candidate cargo-web)" "$1"; then
        # Debian keeps these as new as its browsers need, in releases whose own Rust is old.
        apt_install cargo-web rustc-web rust-web-clippy rustfmt-web
    elif [ -n "$(apt_candidate rustup)" ]; then
        apt_install rustup
    else
        say "this release has neither Rust $1 nor rustup as a package"
        want_rustup "$1"
    fi
    hash -r
}

# want_rustup NEEDED: installs rustup as its authors say, without a change to the user's profile.
want_rustup() {
    local home=${CARGO_HOME:-$HOME/.cargo} script
    say "installing rustup into $home, by the script of https://sh.rustup.rs"
    script=$(mktemp)
    if ! curl --proto '=https' --tlsv1.2 -fsS --retry 3 https://sh.rustup.rs -o "$script" ||
        ! sh "$script" -y --quiet --no-modify-path --default-toolchain none >&2; then
        rm -f "$script"
        by_hand "cannot install rustup from https://sh.rustup.rs" \
            "install Rust $1 or later by another way, so that PATH has its cargo; then again"
    fi
    rm -f "$script"
}

# Makes sure of the standard libraries that packages are built with. The Rust of Debian has none for
# static programs; that of rustup, whose directory comes first in the PATH, gets them.
want_libraries() {
    local target lacking=()
    for target in x86_64-unknown-linux-gnu {x86_64,aarch64}-unknown-linux-musl; do
        [ -d "$(rustc --print target-libdir --target "$target")" ] || lacking+=("$target")
    done
    [ "${#lacking[@]}" -gt 0 ] || return 0
    if ! command -v rustup >/dev/null 2>&1; then
        want_rustup "$(rust_needed)"
        hash -r
        install_toolchain
    fi
    say "adding Rust's libraries for ${lacking[*]}"
    rustup target add "${lacking[@]}" >&2
    for target in "${lacking[@]}"; do
        [ -d "$(rustc --print target-libdir --target "$target")" ] ||
            by_hand "$(command -v rustc) has no library for $target, and rustup's is not in use" \
                "put ${CARGO_HOME:-$HOME/.cargo}/bin first in the PATH"
    done
}

# want_tool CRATE [OPTION...]: installs a program from crates.io into target/tools if it is missing.
want_tool() {
    command -v "$1" >/dev/null 2>&1 && return 0
    say "compiling $1 into target/tools (once, some minutes)"
    CARGO_TARGET_DIR=target/tools/build CARGO_PROFILE_DEV_DEBUG=false \
        cargo install "$@" --locked --quiet --root target/tools >&2 || return 1
    rm -rf target/tools/build
}

# A verifier by other hands. sha256sum, which is always there, does if neither way leads to b3sum.
want_b3sum() {
    command -v b3sum >/dev/null 2>&1 && return 0
    apt_update
    if [ -n "$(apt_candidate b3sum)" ]; then
        apt_install b3sum
    else
        want_tool b3sum || say "no b3sum to be had; the demo will verify with sha256sum"
    fi
}

# A distributed file system for the tests that want one; they skip where it is not to be had, and
# in CI that is a failure. Its daemons are started by the tests alone.
want_moosefs() {
    PATH="$PATH:/usr/sbin" command -v mfsmaster >/dev/null 2>&1 && return 0
    apt_update
    if [ -n "$(apt_candidate moosefs-master)" ]; then
        apt_install moosefs-master moosefs-chunkserver moosefs-client
    else
        say "no MooseFS to be had; tests that need it are skipped"
    fi
}

# An OpenID provider by other hands for the tests of log-ins, in target/oidc. They skip where there
# is no Node.js 20, and in CI that is a failure.
want_oidc_provider() {
    local from=crates/penstock/tests/oidc to=target/oidc major
    local PATH="$PWD/target/tools/bin:$PATH"
    major=$(node --version 2>/dev/null | sed -n 's/^v\([0-9]*\)\..*/\1/p')
    if [ "${major:-0}" -lt 20 ] || ! command -v npm >/dev/null 2>&1; then
        say "no Node.js 20 with npm to be had; tests of log-ins at a provider are skipped"
        return 0
    fi
    mkdir -p "$to"
    if [ ! -d "$to/node_modules/oidc-provider" ] ||
        ! cmp -s "$from/package-lock.json" "$to/package-lock.json"; then
        say "installing oidc-provider into $to"
        cp "$from/package.json" "$from/package-lock.json" "$to/"
        if ! npm ci --prefix "$to" --ignore-scripts --no-audit --no-fund --silent >&2; then
            rm -rf "$to"
            say "oidc-provider cannot be installed; tests of log-ins at a provider are skipped"
        fi
    fi
}

# What builds the web page (web/README.md). Neither a build of Penstock nor its use needs it.
NODE_OLDEST=20.19.0
NODE=22.23.3
NPM=11.1.0
NPM_SHA256=0f144846f78cc0eb230b0e228f736d5c06362e4ea867c72f059790568454abb7

# fetch_package NAME VERSION SHA256 DIRECTORY: unpacks a package of npm's registry, if it is the
# one of that digest.
fetch_package() {
    local file sum
    file=$(mktemp)
    curl --proto '=https' --tlsv1.2 -fsS --retry 3 -o "$file" \
        "https://registry.npmjs.org/$1/-/$1-$2.tgz" || { rm -f "$file" && return 1; }
    sum=$(sha256sum <"$file" | cut -d ' ' -f 1)
    if [ "$sum" != "$3" ]; then
        say "$1 $2 is not the file that was tested"
        rm -f "$file"
        return 1
    fi
    mkdir -p "$4"
    tar -xzf "$file" -C "$4" --strip-components=1
    rm -f "$file"
}

node_version() { node --version 2>/dev/null | sed -n 's/^v//p'; }

# Node and npm from the PATH, from the release's packages, or from npm's registry, by their digests.
want_node() {
    local kind sum to=target/tools/node
    at_least "$(node_version)" "$NODE_OLDEST" && command -v npm >/dev/null && return 0
    apt_update
    if at_least "$(apt_candidate nodejs)" "$NODE_OLDEST" && [ -n "$(apt_candidate npm)" ]; then
        apt_install nodejs npm
        return
    fi
    case "$(uname -m)" in
        x86_64)
            kind=x64
            sum=00b5c43d88958dbbf45339c4d5e9a76289c7e25876fd08270b379e485e151fc5
            ;;
        aarch64)
            kind=arm64
            sum=894b9938b215d40b3a38db094ef436d02b3bc7dd16f04fca145a4735cd9e9035
            ;;
        *)
            say "no Node for this kind of CPU; the web page stays unchecked"
            return
            ;;
    esac
    say "fetching Node $NODE into target/tools"
    if fetch_package "node-linux-$kind" "$NODE" "$sum" "$to" &&
        fetch_package npm "$NPM" "$NPM_SHA256" "$to/npm"; then
        mkdir -p target/tools/bin
        ln -sf "$PWD/$to/bin/node" target/tools/bin/node
        printf '#!/bin/sh\nexec node "%s" "$@"\n' "$PWD/$to/npm/bin/npm-cli.js" \
            >target/tools/bin/npm
        chmod +x target/tools/bin/npm
    else
        say "no Node to be had; the web page stays unchecked"
    fi
}

# A browser for the tests of the web page. Ubuntu has none as a package of its own.
want_chromium() {
    local name
    for name in chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    apt_update
    if [ -n "$(apt_candidate chromium)" ]; then
        apt_install chromium
    else
        say "no Chromium to be had; pages are not tested"
    fi
}

case "${1:-test}" in
    build | packages | test | demo) ;;
    *) by_hand "no such purpose: $1" "scripts/setup.sh [build|packages|test|demo]" ;;
esac
want_packages "${1:-test}"
want_rust
case "${1:-test}" in
    test)
        want_b3sum
        want_moosefs
        want_node
        want_chromium
        want_oidc_provider
        # It runs for a second: to optimise it would take minutes and gain nothing.
        want_tool cargo-deny --debug || say "no cargo-deny to be had; dependencies stay unchecked"
        ;;
    packages) want_libraries ;;
    demo) want_b3sum ;;
esac
say "everything for ${1:-test} is there (cargo $(cargo_version))"
