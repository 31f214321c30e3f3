#!/usr/bin/env bash
# Starts the release build in classic and in worker mode, requests a page and its state, and stops it.
#
#   scripts/smoke.sh      SVC names the binary under test, target/release/svc by default
set -euo pipefail

cd "$(dirname "$0")/.."
# It is meant for tests; the server would warn that it does not know it.
unset SVC_NO_SKIP
svc=${SVC:-${CARGO_TARGET_DIR:-target}/release/svc}
work=$(mktemp -d)
pid=''
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT

die() {
    echo "smoke: $mode: $*" >&2
    cat "$work/log" "$work/errors" >&2 2>/dev/null || true
    exit 1
}

# Prints the address in the log record with the message $1.
addr() { sed -nE "s/.*\"message\":\"$1\".*\"addr\":\"([^\"]+)\".*|.*\"addr\":\"([^\"]+)\".*\"message\":\"$1\".*/\1\2/p" "$work/log"; }

# Serves $2 with the settings $3...; $1 names the mode. In the end, a page must have been served and counted.
try() {
    local mode=$1 root=$2 main ops page
    shift 2
    # The background process empties it only a moment later, and it still contains the log of the previous mode.
    : >"$work/log"
    env LISTEN_ADDR=127.0.0.1:0 INTERNAL_ADDR=127.0.0.1:0 "$@" "$svc" serve "$root" >"$work/log" 2>"$work/errors" &
    pid=$!
    until grep -q '"svc is ready"' "$work/log"; do
        kill -0 "$pid" 2>/dev/null || die "it ended at its start"
        sleep 0.1
    done
    main=$(addr 'main port is listening') ops=$(addr 'operations port is listening')
    page=$(curl -sS --fail --max-time 30 "http://$main/") || die "there is no page"
    case $page in *PHP*) ;; *) die "the page is not made by PHP: $page" ;; esac
    [ "$(curl -sS --fail --max-time 30 "http://$ops/readyz")" = readiness ] || die "it is not ready"
    curl -sS --fail --max-time 30 "http://$ops/metrics" | grep -x 'svc_requests_total 1' >/dev/null || die "the page is not counted"
    kill "$pid"
    wait "$pid" || die "it ended with exit code $?"
    pid=''
    [ ! -s "$work/errors" ] || die "it wrote to standard error"
    ! grep -qE '"level":"(WARN|ERROR)"' "$work/log" || die "it warned"
    echo "smoke: $mode: well"
}

mode='' "$svc" version
mkdir "$work/root"
cat >"$work/root/worker.php" <<'PHP'
<?php
Svc\Worker::serve(function (): void {
    echo 'PHP ', PHP_VERSION;
});
PHP
try 'classic mode' welcome
try 'worker mode' "$work/root" WORKER_MODE_ENABLED=true ENTRY_FILE=worker.php
