#!/usr/bin/env bash
# Installs the package DEB in a fresh root of the machine's release and uses it as its unit does: ExecStart as the unit's
# user with a notification socket, a page, a reload, the end, an upgrade over itself, and a purge. Takes minutes, and root.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
deb=$(realpath "${1:?usage: deb-test.sh DEB}")
# shellcheck source-path=SCRIPTDIR source=archives.sh
. "$here/scripts/archives.sh"

say() { printf 'deb-test: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "only root can create a root"
"$here/scripts/system-packages.sh" debootstrap >&2 || exit 1
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
mapfile -t uris < <(archive_uris)

root=$(mktemp -d /var/tmp/svc-deb-XXXXXX)
chmod 755 "$root"
mounted=()
clean_up() {
    local at
    for at in "${mounted[@]}"; do umount "$at" || true; done
    rm -rf --one-file-system "$root"
}
trap clean_up EXIT

say "creating a $suite root in $root"
debootstrap --variant=minbase "$suite" "$root" "${uris[0]}" >"$root.log" 2>&1 || { tail "$root.log"; die "debootstrap failed"; }
rm -f "$root.log"
cp -L /etc/resolv.conf "$root/etc/" 2>/dev/null || true
for file in /etc/apt/apt.conf.d/*proxy*; do [ ! -e "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"; done
mount --bind /proc "$root/proc" && mounted+=("$root/proc")
mount --bind /dev "$root/dev" && mounted+=("$root/dev")
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }

say "installing ${deb##*/}"
cp "$deb" "$root/tmp/svc.deb"
inside apt-get -qq update
inside apt-get -qq -y --no-install-recommends install /tmp/svc.deb >"$root/tmp/apt.log" 2>&1 ||
    { tail "$root/tmp/apt.log"; die "the package cannot be installed"; }
inside svc version
inside sh -c 'set -a; . /etc/svc/svc.env; svc check' | grep -E '^ *(DOCUMENT_ROOT|LISTEN_ADDR)'
inside getent passwd svc
inside sh -c 'ls -ld /etc/svc/* /var/lib/svc /usr/lib/svc/etc'

unit=$root/lib/systemd/system/svc.service
[ -e "$unit" ] || unit=$root/usr/lib/systemd/system/svc.service
start=$(sed -n 's/^ExecStart=//p' "$unit")
user=$(sed -n 's/^User=//p' "$unit")
say "starting \"$start\" as $user"
cp "$here/scripts/deb-test.php" "$root/tmp/test.php"
echo '<?php echo PHP_SAPI, " ", get_current_user(), " ", php_ini_loaded_file(), " ", extension_loaded("Zend OPcache") ? "opcache" : "";' \
    >"$root/usr/share/svc/welcome/page.php"
inside /usr/lib/svc/bin/php -d error_reporting=-1 /tmp/test.php "$user" "$start"

say "installing it again"
echo 'changed=1' >>"$root/etc/svc/php.ini"
inside apt-get -qq -y reinstall /tmp/svc.deb >>"$root/tmp/apt.log" 2>&1 || { tail "$root/tmp/apt.log"; die "no reinstallation"; }
grep -q '^changed=1' "$root/etc/svc/php.ini" || die "the administrator's php.ini was replaced"
say "purging it"
inside apt-get -qq -y purge svc >>"$root/tmp/apt.log" 2>&1 || { tail "$root/tmp/apt.log"; die "no purge"; }
[ ! -e "$root/etc/svc" ] && [ ! -e "$root/usr/lib/svc" ] && [ ! -e "$root/usr/bin/svc" ] || die "something is left: $(ls -d "$root"/etc/svc "$root"/usr/lib/svc)"
say "passed"
