#!/usr/bin/env bash
# Prints a folder with `otelcol`, a Collector of OpenTelemetry that the tests export spans to.
#
# It is built once a machine from scripts/otelcol, whose modules come from the Go module proxy. Of several runs at the same
# time one does the work.
set -euo pipefail

name=otelcol
say() { printf '%s: %s\n' "$name" "$*" >&2; }
die() { say "$*"; exit 1; }

sources=$(cd "$(dirname "$0")" && pwd)/otelcol
version=$(cat "$sources"/go.mod "$sources"/go.sum "$sources"/main.go | sha256sum | cut -c1-12)
home=${XDG_CACHE_HOME:-$HOME/.cache}/svc/$name-$version
mkdir -p "$home"
exec 9>"$home/.lock"
flock 9
if [ ! -x "$home/otelcol" ]; then
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || die 'there is no go, which it is built with'
    say 'building'
    # One package at a time, for machines with little memory. Nothing of the tree is part of the program.
    (cd "$sources" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off \
        go build -p "${OTELCOL_JOBS:-2}" -trimpath -buildvcs=false -ldflags='-s -w' -o "$home/otelcol.new" .) >&2 ||
        die 'go cannot build it'
    mv "$home/otelcol.new" "$home/otelcol"
fi
echo "$home"
