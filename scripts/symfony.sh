#!/usr/bin/env bash
# Prints the folder with the classes of Symfony's kernel, its router and sessions, and of Twig, as namespaces say.
#
# They come from the machine's own Debian or Ubuntu archive, unpacked into the cache folder, not installed. Progress
# goes to standard error; a second run downloads nothing.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/svc
packages=(
    php-psr-container php-psr-event-dispatcher php-psr-log php-symfony-deprecation-contracts php-symfony-error-handler
    php-symfony-event-dispatcher php-symfony-event-dispatcher-contracts php-symfony-http-foundation
    php-symfony-http-kernel php-symfony-routing php-symfony-service-contracts php-symfony-var-dumper php-twig
)
# Raise when what is done below changes.
recipe=1
home=$cache/symfony-r$recipe

say() { printf 'symfony: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Unpacks all packages into $1.
unpack() {
    local work=$1 file
    mkdir -p "$work/debs"
    (cd "$work/debs" && apt-get -qq -o APT::Sandbox::User= download "${packages[@]}" >&2) || return 1
    for file in "$work"/debs/*.deb; do
        dpkg-deb -x "$file" "$work"
    done
}

command -v apt-get >/dev/null || die 'there is no apt-get, which it is fetched with'
mkdir -p "$cache"
exec 9>"$cache/symfony.lock"
flock 9
if [ ! -e "$home/.complete" ]; then
    say 'downloading Symfony and Twig'
    rm -rf "$home"
    unpack "$home" || { apt-get -qq update >&2 && rm -rf "$home" && unpack "$home"; } ||
        die "apt-get cannot download ${packages[*]}"
    rm -rf "$home/debs"
    touch "$home/.complete"
fi
echo "$home/usr/share/php"
