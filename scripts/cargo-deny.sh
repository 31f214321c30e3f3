#!/usr/bin/env bash
# Prints the path of cargo-deny, which checks the dependencies against deny.toml.
#
# The one on PATH is used. Otherwise the version below is built, once a machine, which takes a minute on two cores. It is not
# optimised, because a check takes a second either way.
set -euo pipefail

version=0.20.2

if command -v cargo-deny; then
    exit
fi

tool=cargo-deny
# shellcheck source-path=SCRIPTDIR source=once.sh
. "$(dirname "$0")/once.sh"

build() {
    say "building $version in $home (only needed once)"
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$home/target" \
        cargo install --quiet --locked --profile dev --root "$home" "cargo-deny@$version" >&2
    rm -rf "$home/target"
}

once "cargo-deny-$version" bin/cargo-deny build
echo "$home/bin/cargo-deny"
