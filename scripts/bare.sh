#!/usr/bin/env bash
# Shows that the first minute works on a bare Debian: makes a root of that release with make and
# git alone, clones the commit that is checked out, and runs there `make demo`, then the set-up of
# `make test`.
#
# Usage: scripts/bare.sh RELEASE [DIRECTORY]
#
#   RELEASE    its name, such as bookworm or trixie
#   DIRECTORY  where to make the root, which is removed at the end. Without it, TMPDIR.
#
# Needs root, mmdebstrap, 8 GiB there and in /dev/shm, and the mirrors of Debian and crates.io. All
# mounts are in a namespace of the script's own.
# Exit codes: 0 all went well, 1 the program is too large, 2 something is missing or must be
# installed by hand; else that of the command that failed.
set -euo pipefail

if [ "${PENSTOCK_BARE:-}" != inside ]; then
    [ "$(id -u)" -eq 0 ] || {
        echo "error: cannot make a root of Debian: that needs root" >&2
        exit 2
    }
    exec env PENSTOCK_BARE=inside unshare --mount --propagation private -- "$0" "$@"
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
release=${1:?the name of a release of Debian}

# Users copy the program to other hosts, and `penstock copy` sends it over ssh: it stays small. It
# had 45 to 58 MB in November 2026. `cargo xtask release --check` has the same bound.
PROGRAM_BYTES_MAX=$((64 << 20))

say() { printf 'bare: %s\n' "$*" >&2; }

command -v mmdebstrap >/dev/null || {
    printf 'error: there is no mmdebstrap\nhint:  apt-get install mmdebstrap\n' >&2
    exit 2
}
root=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/penstock-bare-$release.XXXXXX")
clean_up() {
    local status=$?
    trap - EXIT
    umount -l "$root/proc" "$root/dev" 2>/dev/null || true
    rm -rf --one-file-system -- "$root"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# in_root COMMAND...: runs it as root of the new root, with nothing of this environment.
in_root() {
    chroot "$root" /usr/bin/env -i HOME=/root TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

say "making a root of Debian $release"
mmdebstrap --quiet --variant=minbase --include=git,make "$release" "$root"
mount --bind /proc "$root/proc"
mount --rbind /dev "$root/dev"
# Authorities that this host's administrator trusts; ca-certificates takes them up when it comes.
mkdir -p "$root/usr/local/share/ca-certificates"
cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null ||
    true
git clone --quiet --no-hardlinks . "$root/root/penstock"

say "make demo"
begun=$SECONDS
in_root make -C /root/penstock demo
size=$(stat -c %s "$root/root/penstock/target/release/penstock")
say "make demo took $((SECONDS - begun)) s; the program has $size bytes"
[ "$size" -le "$PROGRAM_BYTES_MAX" ] || {
    echo "error: the program has $size bytes, more than $PROGRAM_BYTES_MAX" >&2
    exit 1
}
say "setting up for make test"
in_root /root/penstock/scripts/setup.sh test
