#!/bin/sh
# Builds an image of a program, with buildah, podman or docker, whichever there is. No process runs
# in the image, so buildah needs neither a daemon nor namespaces.
#
# Usage: packaging/container/build.sh PROGRAM [NAME]
#
#   PROGRAM  a penstock: best a static one, of the releases or by `make static`; of another one the
#            image has the libraries too
#   NAME     of the image (default: penstock:latest)
#
# SOURCE_DATE_EPOCH is the time of its files and of the image (default: that of the last commit, so
# that the same program gives the same image).
# Exit codes: 0 built; 2 something is missing; else that of the builder.
set -eu

program=${1:?the program}
name=${2:-penstock:latest}
here=$(cd "$(dirname "$0")" && pwd)
: "${SOURCE_DATE_EPOCH:=$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0)}"
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
tree=$work/tree

mkdir -p "$tree/usr/bin" "$tree/etc/ssl/certs" "$tree/tmp" "$work/state/penstock"
cp "$program" "$tree/usr/bin/penstock"
chmod 755 "$tree/usr/bin/penstock"
chmod 700 "$work/state/penstock"
chmod 1777 "$tree/tmp"
# What the loader of a program that is not static reads, at the same places.
ldd "$program" 2>/dev/null | awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^\//) print $i }' |
    while read -r library; do
        mkdir -p "$tree$(dirname "$library")"
        cp -L "$library" "$tree$library"
    done
for certificates in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
    if [ -e "$certificates" ]; then
        cp -L "$certificates" "$tree/etc/ssl/certs/ca-certificates.crt"
        break
    fi
done
echo 'penstock:x:65532:65532:Penstock:/var/lib/penstock:/nonexistent' >"$tree/etc/passwd"
echo 'penstock:x:65532:' >"$tree/etc/group"
echo 'hosts: files dns' >"$tree/etc/nsswitch.conf"
find "$work" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
cp "$here/Containerfile" "$work/"

if command -v buildah >/dev/null; then
    buildah build --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" -t "$name" "$work"
elif command -v podman >/dev/null; then
    podman build --timestamp "$SOURCE_DATE_EPOCH" -t "$name" "$work"
elif command -v docker >/dev/null; then
    docker build -f "$work/Containerfile" -t "$name" "$work"
else
    printf 'error: there is no builder of images\nhint:  install buildah\n' >&2
    exit 2
fi
