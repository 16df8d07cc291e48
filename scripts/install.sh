#!/usr/bin/env bash
# Installs what `make build` has built, with all that packages have, or removes it again.
#
# Usage: scripts/install.sh install|uninstall PREFIX [DESTDIR]
#
#   PREFIX   an absolute path, such as /usr/local
#   DESTDIR  a root to install into, for those who make packages; without it, this host's
#
# PROGRAM names another program than target/release/penstock. Under sudo only the copying is done
# by root: cargo runs as the user. Configuration that is there stays. Removal by root from this host
# stops and disables the daemon.
# Exit codes: 0 done, 1 failed, 2 wrong command line.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() {
    echo "error: usage: scripts/install.sh install|uninstall PREFIX [DESTDIR]" >&2
    exit 2
}
[ $# -ge 2 ] || usage
prefix=${2%/} destination=${3:-}
case "$prefix" in
    /?*) ;;
    *) usage ;;
esac
list=$prefix/share/penstock/installed
staged=target/packaging/install

# Stages the tree as the user who owns the sources.
stage() {
    local script words=(bash -c)
    script=$(printf '. scripts/env.sh; cargo xtask stage --prefix %q --program %q --out %q' \
        "$prefix" "${PROGRAM:-target/release/penstock}" "$staged")
    if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
        words=(sudo -u "$SUDO_USER" -H bash -c)
    fi
    "${words[@]}" "$script"
}

# Installs one staged file. A program that runs keeps its file until it ends.
install_file() {
    local from=$staged/$1 to=$destination/$1
    case "$1" in
        # The unit and the users of a prefix in which systemd does not look.
        etc/systemd/* | etc/sysusers.d/*) ;;
        etc/*)
            if [ -e "$to" ] && ! cmp -s "$from" "$to"; then
                echo "kept $to"
                return
            fi
            ;;
    esac
    install -D -m "$(stat -c %a "$from")" "$from" "$to"
}

# Tells whether this host's systemd has the unit that was installed, and not one of a package.
runs_here() {
    [ -z "$destination" ] && [ "$(id -u)" -eq 0 ] && command -v systemctl >/dev/null || return 1
    local unit
    unit=$(systemctl show --property FragmentPath --value penstock.service 2>/dev/null) || return 1
    [ -n "$unit" ] && grep -qxF "${unit#/}" "$list"
}

case "$1" in
    install)
        stage
        while read -r file; do
            if [ -d "$staged/$file" ] || [ ! -e "$staged/$file" ]; then
                install -d -m 755 "$destination/$file"
            else
                install_file "$file"
            fi
        done <"$staged$list"
        install_file "${list#/}"
        echo "installed $destination$prefix/bin/penstock"
        echo "hint: for a first daemon, as root: systemd-sysusers;" \
            "install -d -m 700 -o penstock -g penstock /var/lib/penstock;" \
            "$prefix/bin/penstock config wizard; systemctl daemon-reload"
        ;;
    uninstall)
        if [ ! -e "$destination$list" ]; then
            echo "error: nothing is installed by make install below $destination$prefix" >&2
            exit 1
        fi
        runs=no
        if runs_here; then
            runs=yes
            systemctl disable --now penstock.service 2>/dev/null || true
        fi
        mapfile -t files < <(grep -v '^etc/penstock' "$destination$list")
        for file in "${files[@]}" "${list#/}"; do
            rm -f "$destination/$file"
        done
        # Directories of our name, the deepest first; one that holds something else stays.
        printf '%s\n' "${files[@]}" "${list#/}" | sed -n 's|\(.*/penstock.*\)/[^/]*$|\1|p' |
            sort -ru | while read -r directory; do
            rmdir --ignore-fail-on-non-empty "$destination/$directory" 2>/dev/null || true
        done
        if [ "$runs" = yes ]; then
            systemctl daemon-reload 2>/dev/null || true
        fi
        echo "removed; /etc/penstock, /var/lib/penstock and the user penstock stay"
        ;;
    *) usage ;;
esac
