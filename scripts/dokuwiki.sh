#!/usr/bin/env bash
# Prints the path of a DokuWiki that is ready to be installed by its own install.php: a document root to copy.
#
# DokuWiki and the libraries it needs come from the machine's package archive (see unpack.sh). The package keeps
# configuration, data and plugins elsewhere in the system and links to them; here they are in the same places as in
# DokuWiki's own archive, so that the folder is self-contained.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=unpack.sh
. "$here/unpack.sh"

packages=(
    dokuwiki libjs-jquery libjs-jquery-cookie libjs-jquery-ui libphp-simplepie php-constant-time php-geshi
    php-phpseclib php-random-compat
)

# Assembles $home/root and $home/share.
assemble() {
    local root=$home/root share=$home/share
    cp -r "$home/usr/share/dokuwiki" "$root"
    rm -rf "$root/.htaccess" "$root/lib/plugins" "$root/lib/tpl" "$root/inc/preload.php"
    cp -r "$home/var/lib/dokuwiki/lib/." "$root/lib/"
    cp -r "$home/var/lib/dokuwiki/data" "$root/data"
    cp -r "$home/etc/dokuwiki" "$root/conf"
    mkdir -p "$share"
    cp -r "$home/usr/share/php" "$home/usr/share/php-geshi" "$home/usr/share/javascript" "$share/"
    # The installer creates these two files.
    rm -f "$root/conf/acl.auth.php" "$root/conf/users.auth.php"
    sed -i 's#/var/lib/dokuwiki/data#./data#' "$root/conf/dokuwiki.php"
    grep -rlE --include='*.php' '/usr/share/(php|php-geshi|javascript)\b' "$root" |
        xargs sed -i -E "s#/usr/share/(php|php-geshi|javascript)\\b#$share/\\1#g"
    [ -z "$(find "$root" -type l)" ] || die "a link is left in $root"
    (cd "$home" && rm -rf etc usr var)
}

provide dokuwiki 1 "${packages[@]}"
echo "$home/root"
