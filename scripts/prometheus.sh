#!/usr/bin/env bash
# Prints a folder that holds `prometheus` and `promtool`, the judges of the metrics page.
#
# Those on PATH are taken; otherwise the Debian or Ubuntu package is unpacked into the cache folder, not installed, so
# that no service is started. A second run downloads nothing.
set -euo pipefail

if installed=$(command -v promtool) && command -v prometheus >/dev/null; then
    dirname "$installed"
    exit
fi

cache=${XDG_CACHE_HOME:-$HOME/.cache}/svc
home=$cache/prometheus-r1

say() { printf 'prometheus: %s\n' "$*" >&2; }

unpack() {
    rm -rf "$home"
    mkdir -p "$home/debs"
    (cd "$home/debs" && apt-get -qq -o APT::Sandbox::User= download prometheus >&2) || return 1
    dpkg-deb -x "$home"/debs/prometheus_*.deb "$home"
    rm -rf "$home/debs"
    touch "$home/.complete"
}

mkdir -p "$cache"
exec 9>"$cache/prometheus.lock"
flock 9
if [ ! -e "$home/.complete" ]; then
    say "downloading the package"
    unpack || { apt-get -qq update >&2 && unpack; } || { say "apt-get cannot download prometheus"; exit 1; }
fi
echo "$home/usr/bin"
