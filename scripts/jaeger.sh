#!/usr/bin/env bash
# Prints a folder with `jaeger`, a Jaeger that keeps traces in memory: `make jaeger` exports spans to it and reads them back.
#
# It is built once a machine, with the versions of scripts/jaeger, whose modules come from the Go module proxy. That takes
# some minutes, so no other test uses it. Of several runs at the same time one does the work.
set -euo pipefail

name=jaeger
say() { printf '%s: %s\n' "$name" "$*" >&2; }
die() { say "$*"; exit 1; }

sources=$(cd "$(dirname "$0")" && pwd)/jaeger
version=$(cat "$sources"/go.mod "$sources"/go.sum | sha256sum | cut -c1-12)
home=${XDG_CACHE_HOME:-$HOME/.cache}/svc/$name-$version
mkdir -p "$home"
exec 9>"$home/.lock"
flock 9
if [ ! -x "$home/jaeger" ]; then
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || die 'there is no go, which it is built with'
    say 'building'
    # Nothing of the tree is part of the program, and it comes without its user interface.
    (cd "$sources" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off \
        go build -p "${JAEGER_JOBS:-2}" -trimpath -buildvcs=false -ldflags='-s -w' -o "$home/jaeger.new" \
        github.com/jaegertracing/jaeger/cmd/all-in-one) >&2 ||
        die 'go cannot build it'
    mv "$home/jaeger.new" "$home/jaeger"
fi
echo "$home"
