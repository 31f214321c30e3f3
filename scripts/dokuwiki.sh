#!/usr/bin/env bash
# Prints the path of a DokuWiki that is ready to be installed by its own install.php: a document root to copy.
#
# DokuWiki and the libraries it wants come from the machine's own Debian or Ubuntu archive, unpacked into the cache
# folder, not installed. The package keeps configuration, data and plugins elsewhere in the system and links them;
# here they stand where DokuWiki's own archive has them, so that the folder stands alone. Progress goes to standard
# error; a second run downloads nothing.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/svc
packages=(
    dokuwiki libjs-jquery libjs-jquery-cookie libjs-jquery-ui libphp-simplepie php-constant-time php-geshi
    php-phpseclib php-random-compat
)
# Raise when what is done below changes.
recipe=1
home=$cache/dokuwiki-r$recipe

say() { printf 'dokuwiki: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Unpacks all packages into $1/system.
unpack() {
    local work=$1 file
    mkdir -p "$work/debs" "$work/system"
    (cd "$work/debs" && apt-get -qq -o APT::Sandbox::User= download "${packages[@]}" >&2) || return 1
    for file in "$work"/debs/*.deb; do
        dpkg-deb -x "$file" "$work/system"
    done
}

# Puts the pieces in $1/system together as $1/root and $1/share.
assemble() {
    local system=$1/system root=$1/root share=$1/share
    cp -r "$system/usr/share/dokuwiki" "$root"
    rm -rf "$root/.htaccess" "$root/lib/plugins" "$root/lib/tpl" "$root/inc/preload.php"
    cp -r "$system/var/lib/dokuwiki/lib/." "$root/lib/"
    cp -r "$system/var/lib/dokuwiki/data" "$root/data"
    cp -r "$system/etc/dokuwiki" "$root/conf"
    mkdir -p "$share"
    cp -r "$system/usr/share/php" "$system/usr/share/php-geshi" "$system/usr/share/javascript" "$share/"
    # The installer writes these two.
    rm -f "$root/conf/acl.auth.php" "$root/conf/users.auth.php"
    sed -i 's#/var/lib/dokuwiki/data#./data#' "$root/conf/dokuwiki.php"
    grep -rlE --include='*.php' '/usr/share/(php|php-geshi|javascript)\b' "$root" |
        xargs sed -i -E "s#/usr/share/(php|php-geshi|javascript)\\b#$home/share/\\1#g"
    [ -z "$(find "$root" -type l)" ] || die "a link is left in $root"
}

mkdir -p "$cache"
exec 9>"$cache/dokuwiki.lock"
flock 9
if [ ! -e "$home/.complete" ]; then
    say "downloading DokuWiki and its libraries"
    rm -rf "$home"
    unpack "$home" || { apt-get -qq update >&2 && rm -rf "$home" && unpack "$home"; } ||
        die "apt-get cannot download ${packages[*]}"
    assemble "$home"
    rm -rf "$home/debs" "$home/system"
    touch "$home/.complete"
fi
echo "$home/root"
