#!/usr/bin/env bash
# Prints the folder with axe.min.js, which checks pages for accessibility. It comes from npm, once a machine.
set -euo pipefail

version=4.10.3
sum=880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb

tool=axe
# shellcheck source-path=SCRIPTDIR source=once.sh
. "$(dirname "$0")/once.sh"

fetch() {
    command -v npm >/dev/null || die 'there is no npm, which it is fetched with'
    scratch=$(mktemp -d "$home/new.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    (cd "$scratch" && npm pack --silent "axe-core@$version" >/dev/null) || die 'npm cannot fetch it'
    tar xzf "$scratch/axe-core-$version.tgz" -C "$scratch" package/axe.min.js
    echo "$sum  $scratch/package/axe.min.js" | sha256sum --check --quiet >&2 || die 'npm has something else'
    mv "$scratch/package/axe.min.js" "$home/axe.min.js"
}

once "axe-core-$version" axe.min.js fetch
echo "$home"
