#!/bin/sh
# Ensures that this system can run the server, and that a Rust toolchain that can build it is on PATH; says what is missing.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
# Without names of packages, it only looks at the system.
"$here/scripts/system-packages.sh"

need=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$here/Cargo.toml")
how="install it with rustup (https://rustup.rs), as the user who builds"
if ! have=$(cargo --version 2>/dev/null); then
    echo "toolchain: there is no cargo on PATH; svc requires Rust $need or later: $how" >&2
    exit 1
fi
have=$(echo "$have" | cut -d' ' -f2)
if [ "$(printf '%s\n' "$need" "$have" | sort -V | head -n 1)" != "$need" ]; then
    echo "toolchain: $(command -v cargo) is version $have; svc requires Rust $need or later: $how" >&2
    exit 1
fi
