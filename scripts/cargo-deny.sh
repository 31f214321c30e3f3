#!/usr/bin/env bash
# Prints the path of cargo-deny, which checks the dependencies against deny.toml.
#
# The one on PATH is used. Otherwise the version below is built in the cache folder, once per machine, which takes a minute
# on two cores. It is not optimised, because a check takes a second either way. Progress goes to standard error.
set -euo pipefail

version=0.20.2

if command -v cargo-deny; then
    exit
fi

home=${XDG_CACHE_HOME:-$HOME/.cache}/svc/cargo-deny-$version
mkdir -p "$home"
# One process builds, and the others wait for it.
exec 9>"$home.lock"
flock 9
if [ ! -x "$home/bin/cargo-deny" ]; then
    echo "cargo-deny: building $version in $home (only needed once)" >&2
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$home/target" \
        cargo install --quiet --locked --profile dev --root "$home" "cargo-deny@$version" >&2
    rm -rf "$home/target"
fi
echo "$home/bin/cargo-deny"
