#!/usr/bin/env bash
# The main job, shown on one machine: two sites, each with a daemon and certificates of its own,
# are paired over loopback; a mixed data set moves from one to the other through the network path
# and is verified by a program that is not ours.
#
# Usage: scripts/demo.sh [DIRECTORY]
#
#   DIRECTORY  where to work; what the demo makes in it is removed at the end. Without it, a new
#              directory in /dev/shm or TMPDIR, whichever has room (in that order).
#
# Needs 6 GiB and target/release/penstock, which `make demo` builds.
# Exit codes: 0 moved and verified; 2 no room or no program; else that of the step which failed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

ROOM_KIB=$((6 * 1024 * 1024))
# A tmpfs that fills the memory helps nobody: beside the data there must be some left.
MEMORY_KIB=$((8 * 1024 * 1024))
penstock=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/penstock

say() { printf '== %s\n' "$*" >&2; }
die() {
    printf 'error: %s\nhint:  %s\n' "$1" "$2" >&2
    exit 2
}

demo=
daemons=()
clean_up() {
    local status=$?
    trap - EXIT
    for pid in ${daemons[@]+"${daemons[@]}"}; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    if [ "$status" -ne 0 ] && [ "$status" -lt 128 ] && [ -n "$demo" ]; then
        tail -n 5 "$demo"/*.log >&2 2>/dev/null
    fi
    [ -z "$demo" ] || rm -rf -- "$demo"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

has_room() {
    [ -d "$1" ] && [ -w "$1" ] &&
        [ "$(df -Pk "$1" | awk 'NR == 2 { print $4 }')" -ge "$ROOM_KIB" ]
}
has_memory() {
    [ "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)" -ge "$MEMORY_KIB" ]
}

# Sets `demo` to a new directory where there is room.
make_room() {
    local place=${1:-}
    if [ -n "$place" ]; then
        mkdir -p "$place"
        has_room "$place" || die "less than 6 GiB free in $place" "name another directory"
    elif has_room /dev/shm && has_memory; then
        place=/dev/shm
    elif has_room "${TMPDIR:-/tmp}"; then
        place=${TMPDIR:-/tmp}
    else
        die "less than 6 GiB free in /dev/shm and in ${TMPDIR:-/tmp}" "scripts/demo.sh DIRECTORY"
    fi
    demo=$(mktemp -d "$(realpath "$place")/penstock-demo.XXXXXX")
    say "working in $demo"
}

# Many files of a few KiB, some of MiB, a few large: at least 2 GiB and 20,000 files.
make_data_set() {
    say "making the data set"
    "$penstock" dataset make "$1/small" --files 20000 --sizes 1K-16K --seed 1
    "$penstock" dataset make "$1/medium" --files 160 --sizes 1M-8M --seed 2
    "$penstock" dataset make "$1/large" --files 4 --size 448M --seed 3
}

# start_site NAME: a site with one store, `data`; its daemon runs when this returns.
start_site() {
    local site=$1 tries=0
    mkdir -p "$demo/$site-data"
    "$penstock" site init --name "$site" --dir "$demo/$site" --listen 127.0.0.1:0 \
        --store "data=$demo/$site-data" >/dev/null 2>&1
    : >"$demo/$site.out"
    "$penstock" daemon --dir "$demo/$site" >"$demo/$site.out" 2>"$demo/$site.log" &
    daemons+=($!)
    until grep -q '^ready:' "$demo/$site.out"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 150 ] || ! kill -0 "${daemons[-1]}" 2>/dev/null; then
            printf 'error: the daemon of site %s did not start\n' "$site" >&2
            return 1
        fi
        sleep 0.1
    done
    sed 's/^ready: /   /' "$demo/$site.out" >&2
}

# CPU seconds of a process, user and system, from fields 14 and 15 of proc(5) stat.
cpu_seconds() {
    sed 's/.*) //' "/proc/$1/stat" | awk -v hz="$(getconf CLK_TCK)" '{ print ($12 + $13) / hz }'
}

# number NAME < JSON: a number of a flat object.
number() { sed -n "s/.*\"$1\":\([0-9.eE+-]*\).*/\1/p" | tail -n 1; }

# Moves the data set and prints what it cost.
move() {
    local before_a before_b id summary
    before_a=$(cpu_seconds "${daemons[0]}")
    before_b=$(cpu_seconds "${daemons[1]}")
    say "penstock transfer submit a:data/set b:data/ --wait"
    id=$("$penstock" transfer submit a:data/set b:data/ --wait --dir "$demo/b" \
        --write-digests "$demo/digests")
    summary=$("$penstock" transfer show "$id" --json --dir "$demo/b")
    awk -v bytes="$(number bytes <<<"$summary")" -v files="$(number files <<<"$summary")" \
        -v seconds="$(number seconds <<<"$summary")" \
        -v before_a="$before_a" -v after_a="$(cpu_seconds "${daemons[0]}")" \
        -v before_b="$before_b" -v after_b="$(cpu_seconds "${daemons[1]}")" 'BEGIN {
            gib = bytes / 2^30
            a = (after_a - before_a) / gib
            b = (after_b - before_b) / gib
            printf "rate      %.2f Gbit/s: %.2f GiB in %.1f s\n", \
                bytes * 8 / seconds / 1e9, gib, seconds
            printf "files     %.0f files/s: %.0f files\n", files / seconds, files
            printf "CPU       %.2f s/GiB: %.2f at the source, %.2f at the target\n", a + b, a, b
        }'
}

# verify SOURCE TARGET: another program than ours compares what both trees hold.
verify() {
    local expected found
    expected=$(find "$1" -type f -printf . | wc -c)
    found=$(find "$2" -type f -printf . | wc -c)
    if [ "$expected" -ne "$found" ]; then
        printf 'error: %s files at the source, %s at the target\n' "$expected" "$found" >&2
        return 8
    fi
    if command -v b3sum >/dev/null 2>&1; then
        # The digests that the transfer wrote must hold in both trees, and name every file.
        [ "$(wc -l <"$demo/digests")" -eq "$expected" ] || return 8
        (cd "$1" && b3sum --check --quiet "$demo/digests") || return 8
        (cd "$2" && b3sum --check --quiet "$demo/digests") || return 8
        printf 'verified  %s files in both trees, by b3sum --check\n' "$found"
    else
        (cd "$1" && find . -type f -print0 | xargs -0 sha256sum) >"$demo/sums"
        (cd "$2" && sha256sum --check --quiet "$demo/sums") || return 8
        printf 'verified  %s files in both trees, by sha256sum --check\n' "$found"
    fi
}

[ -x "$penstock" ] || die "there is no $penstock" "make demo"
make_room "${1:-}"
say "two sites, each with a daemon and certificates of its own"
start_site a
start_site b
make_data_set "$demo/a-data/set"
say "pairing b with a, by a token"
token=$("$penstock" site pair --dir "$demo/a" 2>/dev/null)
echo "$token" | "$penstock" site pair --dir "$demo/b" - | sed 's/^/   /' >&2
move
verify "$demo/a-data/set" "$demo/b-data/set"
