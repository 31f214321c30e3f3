#!/usr/bin/env bash
# Runs the static svc given as an argument in a root that contains it, busybox and a page, and requests the page. Needs root.
set -euo pipefail
svc=$1

root=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    umount "$root/proc" 2>/dev/null || true
    rm -rf "$root"
}
trap stop EXIT

mkdir -p "$root"/{bin,proc,tmp,site}
cp "$svc" "$root/bin/svc"
cp "$(command -v busybox)" "$root/bin/sh"
mount -t proc proc "$root/proc"
echo 'a page' >"$root/site/index.html"

chroot "$root" /bin/svc version
# shellcheck disable=SC2016 # the shell in the root expands it
chroot "$root" /bin/sh -c 'EXECUTOR=stub LISTEN_ADDR=127.0.0.1:0 exec /bin/svc /site' >"$root/log" &
server=$!
for _ in $(seq 100); do
    grep -q 'svc is ready' "$root/log" && break
    sleep 0.1
done
addr=$(grep -o '"message":"main port is listening","addr":"[^"]*"' "$root/log" | sed 's/.*"addr":"//; s/"//')
[ "$(curl -fsS "http://$addr/")" = 'a page' ] || { echo "static-test: the page was not served" >&2; exit 1; }
kill "$server"
wait "$server"
server=
echo 'static-test: one file, in a root without any library'
