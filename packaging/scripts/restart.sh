#!/bin/sh
# Restarts the daemon if it runs, as an upgrade of the package does. Nothing is enabled or started,
# but for a daemon that did not come back from the restart before.
#
# At a site of several peers the others take its work before, for PENSTOCK_DRAIN_SECONDS at most
# (60; 0 does not drain). A peer that was drained by hand stays so. At a site of one peer transfers
# wait for the restart and resume. An interrupt ends the drain, and the daemon keeps its program.
# Exit codes: 0 restarted, or it does not run; 1 it does not start again, or stays drained; 129, 130
# or 143 interrupted.
set -u

wait=${PENSTOCK_DRAIN_SECONDS:-60}
# There until the daemon has started again. Names the peer while it is drained by this script, so
# that no drain by hand is taken for its own; else it is empty.
mark=${PENSTOCK_RESTART_MARK:-/run/penstock-restart}
drained=
child=

tell() { echo "penstock: $*" >&2; }

tell_drained() {
    tell "the peer is still drained; to end that, here or at another peer of the site:" \
        "penstock peer drain $drained --undo"
}

# Ends the drain, if there is one. The site may have to elect its controller first.
undo() {
    if [ -z "$drained" ]; then
        rm -f "$mark"
        return 0
    fi
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        if timeout 10 penstock peer drain "$drained" --undo; then
            rm -f "$mark"
            return 0
        fi
        sleep 2
    done
    tell_drained
    return 1
}

# interrupted STATUS
interrupted() {
    trap '' HUP INT TERM
    if [ -n "$child" ]; then
        kill "$child" 2>/dev/null
        wait "$child" 2>/dev/null
    fi
    tell "interrupted; for a restart with the new program: systemctl restart penstock"
    undo
    exit "$1"
}

# Runs a command that a signal need not wait for.
interruptible() {
    "$@" &
    child=$!
    wait "$child"
    set -- $?
    child=
    return "$1"
}

# Sets the name of this peer, and how many others could take its work: none if it is drained
# already, by hand or by an earlier restart. A mark of a drain that has ended does not count.
look() {
    peer=$(timeout 10 penstock config show --effective 2>/dev/null |
        awk '$1 == "peer" { gsub("\"", "", $2); print $2; exit }')
    peers=$(timeout 10 penstock peer list 2>/dev/null | sed 1d)
    case $(printf '%s\n' "$peers" | awk -v peer="$peer" '$1 == peer') in
    '' | *draining*) others=0 ;;
    *)
        drained=
        others=$(($(printf '%s\n' "$peers" | wc -l) - 1))
        ;;
    esac
}

drained=$(cat "$mark" 2>/dev/null)
others=0
case $(systemctl is-active penstock.service 2>/dev/null) in
active) look ;;
# It ran before an earlier restart, and has not started since.
activating | failed) [ -e "$mark" ] || exit 0 ;;
*) exit 0 ;;
esac

trap 'interrupted 129' HUP
trap 'interrupted 130' INT
trap 'interrupted 143' TERM
if [ "$others" -gt 0 ] && [ "$wait" -gt 0 ]; then
    # Before the request: it may be granted and the answer lost.
    drained=$peer
    echo "$peer" >"$mark"
    if interruptible timeout 30 penstock peer drain "$peer"; then
        interruptible timeout $((wait + 30)) \
            penstock peer drain "$peer" --wait --timeout "$wait" ||
            tell "restarting with work in hand: transfers resume it"
    fi
fi

[ -n "$drained" ] || : >"$mark"
# A daemon that failed too often is not started for minutes else.
systemctl reset-failed penstock.service 2>/dev/null
if ! systemctl restart penstock.service; then
    tell "the daemon does not start again: journalctl --unit penstock"
    [ -z "$drained" ] || tell_drained
    exit 1
fi
undo
