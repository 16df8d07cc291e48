#!/usr/bin/env bash
# The main job, shown on one machine: two sites, each with a daemon and certificates of its own,
# are paired over loopback; a mixed data set moves from one to the other through the network path
# and is verified by a program that is not ours.
#
# Usage: scripts/demo.sh [DIRECTORY]    (default: a new one in TMPDIR, removed at the end)
#
# DEMO_BYTES  bytes of the mixed part (default 2G); 20,000 small files come on top
# Exit codes: 0 moved and verified, otherwise that of the step which failed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

DEMO_BYTES=${DEMO_BYTES:-2G}
penstock=${CARGO_TARGET_DIR:-target}/release/penstock

say() { printf '\n== %s\n' "$*" >&2; }

clean_up() {
    local status=$?
    [ -z "${made:-}" ] || rm -rf -- "$made"
    exit "$status"
}

make_room() {
    if [ -n "${1:-}" ]; then
        mkdir -p "$1"
        demo=$(cd "$1" && pwd)
    else
        demo=$(mktemp -d "${TMPDIR:-/tmp}/penstock-demo.XXXXXX")
        made=$demo
    fi
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# Many files of a few KiB, some of MiB, a few large.
make_data_set() {
    say "making a data set in $1"
    "$penstock" dataset make "$1/small" --files 20000 --sizes 1K-16K --seed 1
    "$penstock" dataset make "$1/mixed" --preset esnet --bytes "$DEMO_BYTES" --seed 2
    "$penstock" dataset histogram "$1"
}

# verify SOURCE TARGET: digests of every file of the source, checked at the target.
verify() {
    local sum=sha256sum
    command -v b3sum >/dev/null 2>&1 && sum=b3sum
    say "verifying with $sum --check"
    (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 "$sum") >"$demo/digests"
    (cd "$2" && "$sum" --check --quiet "$demo/digests")
    # The list proves nothing about files too many.
    local expected found
    expected=$(wc -l <"$demo/digests")
    found=$(find "$2" -type f -printf . | wc -c)
    if [ "$expected" -ne "$found" ]; then
        printf 'error: %s files at the source, %s at the target\n' "$expected" "$found" >&2
        return 8
    fi
    printf '%s files verified by %s\n' "$found" "$sum"
}

make_room "${1:-}"
make_data_set "$demo/source"
