# Sourced by scripts that need packages from the machine's Debian or Ubuntu archive. Packages are unpacked into the cache
# folder, not installed, so the system does not change. Progress goes to standard error. A second run downloads nothing,
# and of several runs at the same time one does the work.
# shellcheck shell=bash

cache=${XDG_CACHE_HOME:-$HOME/.cache}/svc

say() { printf '%s: %s\n' "$name" "$*" >&2; }
die() { say "$*"; exit 1; }

# Empties $home and unpacks packages there.
download() {
    local file
    rm -rf "$home"
    mkdir -p "$home/debs"
    (cd "$home/debs" && apt-get -qq -o APT::Sandbox::User= download "$@" >&2) || return 1
    for file in "$home"/debs/*.deb; do
        dpkg-deb -x "$file" "$home" || return 1
    done
    rm -rf "$home/debs"
}

# provide NAME RECIPE PACKAGE...: sets $home to a folder with the unpacked packages, processed by the caller's `assemble`
# if it defines one. RECIPE is a number that is increased when the processing changes.
provide() {
    name=$1 home=$cache/$1-r$2
    shift 2
    mkdir -p "$cache"
    exec 9>"$cache/$name.lock"
    flock 9
    [ ! -e "$home/.complete" ] || return 0
    command -v apt-get >/dev/null || die 'there is no apt-get, which it is fetched with'
    say 'downloading'
    download "$@" || { apt-get -qq update >&2 && download "$@"; } || die "apt-get cannot download $*"
    if declare -F assemble >/dev/null; then
        assemble
    fi
    touch "$home/.complete"
}
