#!/usr/bin/env bash
# Prints the path of a WordPress that is ready to be installed by its own setup: a document root to copy.
#
# WordPress and the libraries it needs come from the machine's package archive (see unpack.sh). The package keeps
# configuration and content elsewhere in the system and links to them; here they are in the same places as in
# WordPress's own archive, so that the folder is self-contained.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=unpack.sh
. "$here/unpack.sh"

packages=(wordpress wordpress-theme-twentytwentythree php-getid3 libjs-cropper libjs-underscore)

# Assembles $home/root.
assemble() {
    local root=$home/root
    # Setup creates the one, svc does not read the other, and certificates are those of the system.
    rm -f "$home/usr/share/wordpress/"{wp-config.php,.htaccess,wp-includes/certificates/ca-bundle.crt}
    cp -rL "$home/usr/share/wordpress" "$root"
    (cd "$home" && rm -rf etc usr var)
}

provide wordpress 1 "${packages[@]}"
echo "$home/root"
