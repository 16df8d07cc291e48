#!/usr/bin/env bash
# Sends a daemon what its OpenAPI document allows and what it forbids, and compares the answers with
# the document: no status of 500 and above that a problem of the site does not explain, no answer
# that the document does not have, no malformed request that is taken, none answered without a
# token.
#
# Usage: scripts/schemathesis.sh [SECONDS] [ROLE...]
#
#   SECONDS  time for each role (default 120)
#   ROLE     administrator, operator, user, viewer (default: the first and the third)
#
# Needs python3 with venv, a package index for schemathesis, and PENSTOCK_BIN or
# target/debug/penstock. Exit codes: 0 no fault; 1 a fault, printed with a curl command that repeats
# it; 2 something is missing.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

VERSION=4.32.5
seconds=${1:-120}
shift || true
[ $# -gt 0 ] || set -- administrator user
penstock=${PENSTOCK_BIN:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/penstock}
environment=$PENSTOCK_ROOT/target/schemathesis
document=$PENSTOCK_ROOT/openapi/penstock-v1.json

die() {
    printf 'error: %s\nhint:  %s\n' "$1" "$2" >&2
    exit 2
}
[ -x "$penstock" ] || die "there is no program $penstock" "cargo build --package penstock"
if [ "$("$environment/bin/st" --version 2>/dev/null | awk '{ print $NF }')" != "$VERSION" ]; then
    python3 -m venv --clear "$environment" &&
        "$environment/bin/pip" install --quiet --only-binary :all: "schemathesis==$VERSION" ||
        die "schemathesis $VERSION cannot be installed" "scripts/setup.sh test, and a package index"
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/penstock-schemathesis-XXXXXX")
daemons=()
clean_up() {
    local status=$?
    trap - EXIT
    for pid in ${daemons[@]+"${daemons[@]}"}; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    if [ "$status" -ne 0 ]; then
        grep -h "ERROR\|panicked" "$work"/*.log >&2
    fi
    rm -rf -- "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# run SITE ARGUMENT...: a command at a site.
run() {
    local site=$1
    shift
    "$penstock" "$@" --dir "$work/$site"
}

# start SITE STORE: makes a site and starts its daemon.
start() {
    local site=$1 store=$2
    mkdir "$work/store-$site"
    run "$site" site init --name "$site" --listen 127.0.0.1:0 "--store=$store=$work/store-$site" \
        '--write=*' '--delete=*' >/dev/null
    printf '\n[web]\nlisten = ["127.0.0.1:0"]\n' >> "$work/$site/penstock.toml"
    # No function: its process is to be the daemon's, which is killed at the end.
    "$penstock" daemon --dir "$work/$site" > "$work/$site.ready" 2> "$work/$site.log" &
    daemons+=($!)
    for _ in $(seq 100); do
        grep -q '^ready' "$work/$site.ready" && return
        sleep 0.1
    done
    die "the daemon of $site does not start" "$(tail -n 3 "$work/$site.log")"
}

# Sites and stores are those of the examples in the document.
start lab raw
start hpc scratch
run hpc site pair "$(run lab site pair | tail -n 1)" >/dev/null
mkdir "$work/store-lab/run7"
head -c 100000 /dev/urandom > "$work/store-lab/run7/file"
run hpc transfer submit lab:raw/run7 hpc:scratch/before --wait >/dev/null
run hpc site ca > "$work/ca.pem"
address=$(sed -n 's/.*served over HTTPS.*address=\([0-9.:]*\).*/\1/p' "$work/hpc.log")

faulty=()
for role; do
    run hpc user set "$role" --role "$role" --grant scratch=list,read,write >/dev/null
    token=$(run hpc token create --user "$role")
    printf '== as %s, for %s s\n' "$role" "$seconds"
    # One stream has no end, and new keys would end the connections of all. A schema does not say
    # all that a request has to be, such as whether a store exists: some are refused.
    (cd "$work" && "$environment/bin/st" run "$document" --url "https://$address" \
        --header "Authorization: Bearer $token" --tls-verify "$work/ca.pem" \
        --max-time "$seconds" --request-timeout 60 --continue-on-failure \
        --exclude-operation-id follow_transfers --exclude-operation-id rotate_keys \
        --checks all --exclude-checks positive_data_acceptance \
        --no-color) || faulty+=("$role")
done
[ ${#faulty[@]} -eq 0 ] || { printf 'error: faults as %s\n' "${faulty[*]}" >&2; exit 1; }
