# Sourced by scripts that need packages from the machine's Debian or Ubuntu archive. Packages are unpacked into the cache
# folder, not installed, so the system does not change, and a second run downloads nothing.
# shellcheck shell=bash

# shellcheck source-path=SCRIPTDIR source=once.sh
. "$(dirname "${BASH_SOURCE[0]}")/once.sh"

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

unpack() {
    command -v apt-get >/dev/null || die 'there is no apt-get, which it is fetched with'
    say 'downloading'
    download "$@" || { apt-get -qq update >&2 && download "$@"; } || die "apt-get cannot download $*"
    if declare -F assemble >/dev/null; then
        assemble
    fi
    touch "$home/.complete"
}

# provide NAME RECIPE PACKAGE...: sets $home to a folder with the unpacked packages, processed by the caller's `assemble`
# if it defines one. RECIPE is a number that is increased when the processing changes.
provide() {
    tool=$1
    once "$1-r$2" .complete unpack "${@:3}"
}
