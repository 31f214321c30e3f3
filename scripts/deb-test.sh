#!/usr/bin/env bash
# Installs the package DEB in a fresh root of the machine's release and uses it as its unit does: ExecStart as the unit's
# user with a notification socket, a page, a reload, the end; then an upgrade, a removal and a purge, as an administrator
# would see them who has edited files in /etc. Takes minutes, and root.
set -euo pipefail
umask 022

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
debootstrap --variant=minbase --components="$(components)" "$suite" "$root" "${uris[0]}" >"$root.log" 2>&1 || { tail "$root.log"; die "debootstrap failed"; }
rm -f "$root.log"
cp -L /etc/resolv.conf "$root/etc/" 2>/dev/null || true
for file in /etc/apt/apt.conf.d/*proxy*; do [ ! -e "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"; done
mount --bind /proc "$root/proc" && mounted+=("$root/proc")
mount --bind /dev "$root/dev" && mounted+=("$root/dev")
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }

# The package has a PHP, or depends on the distribution's php-cgi.
case $(dpkg-deb --field "$deb" Depends) in *php-cgi*) has_php=false ;; *) has_php=true ;; esac
php=/usr/lib/svc/bin/php edited=(php.ini svc.env)
$has_php || { php=/usr/bin/php edited=(svc.env); }

say "installing ${deb##*/}"
cp "$deb" "$root/tmp/svc.deb"
inside apt-get -qq update
inside apt-get -qq -y --no-install-recommends install /tmp/svc.deb >"$root/tmp/apt.log" 2>&1 ||
    { tail "$root/tmp/apt.log"; die "the package cannot be installed"; }
# For this test, which is written in PHP.
$has_php || inside apt-get -qq -y --no-install-recommends install php-cli >>"$root/tmp/apt.log" 2>&1
inside svc version
# Debian's other package with a /usr/bin/svc.
case $(dpkg-deb --field "$deb" Conflicts) in *daemontools*) ;; *) die "it does not conflict with daemontools" ;; esac
inside svc check --env-file /etc/svc/svc.env | grep -E '^ *(DOCUMENT_ROOT|LISTEN_ADDR)'
inside getent passwd svc
inside sh -c 'ls -ld /etc/svc/* /var/lib/svc'
files=(man/man1/svc.1.gz bash-completion/completions/svc zsh/vendor-completions/_svc fish/vendor_completions.d/svc.fish
    svc/prometheus/alerts.yml svc/grafana/svc.json svc/stubs/svc.php)
if $has_php; then
    inside ls -ld /usr/lib/svc/etc
    files+=(svc/plugin/Cargo.toml svc/plugin/lib.rs)
fi
for file in "${files[@]}"; do
    [ -s "$root/usr/share/$file" ] || die "/usr/share/$file is missing"
done

unit=$root/lib/systemd/system/svc.service
[ -e "$unit" ] || unit=$root/usr/lib/systemd/system/svc.service
start=$(sed -n 's/^ExecStart=//p' "$unit")
user=$(sed -n 's/^User=//p' "$unit")
say "starting \"$start\" as $user"
cp "$here/scripts/deb-test.php" "$root/tmp/test.php"
echo '<?php echo PHP_SAPI, " ", get_current_user(), " ", php_ini_loaded_file(), " ", extension_loaded("Zend OPcache") ? "opcache" : "",
    " ", function_exists("apcu_store") && apcu_store("a", "b") && apcu_fetch("a") === "b" ? "apcu" : "";' \
    >"$root/usr/share/svc/welcome/page.php"
words=()
if $has_php; then
    # Enabled as by an administrator; the package only contains it.
    echo 'extension=apcu' >"$root/etc/svc/conf.d/apcu.ini"
    words=(opcache apcu)
fi
inside "$php" -d error_reporting=-1 /tmp/test.php "$user" "$start" "${words[@]}"
rm -f "$root/usr/share/svc/welcome/page.php" "$root/etc/svc/conf.d/apcu.ini"

# What the scripts of the package ask of systemd is recorded.
cat >"$root/usr/bin/systemctl" <<'SYSTEMCTL'
#!/bin/sh
echo "$*" >>/tmp/systemctl.log
case "$*" in *is-enabled*svc.service*) echo enabled ;; *is-enabled*) echo disabled ;; esac
SYSTEMCTL
chmod 755 "$root/usr/bin/systemctl"
mkdir -p "$root/run/systemd/system"
# Lets the package manager do something, and checks what was asked of systemd: starts, stops and restarts, one a line.
manage() {
    local asked
    : >"$root/tmp/systemctl.log"
    inside apt-get -qq -y -o Dpkg::Options::=--force-confold --allow-downgrades "${@:2}" >>"$root/tmp/apt.log" 2>&1 ||
        { tail "$root/tmp/apt.log"; die "apt-get $2 failed"; }
    asked=$(sed -nE 's/^(.* )?((start|restart|stop) svc.*)/\2/p' "$root/tmp/systemctl.log" | tr '\n' ';')
    [ "$asked" = "$1" ] || die "apt-get $2 asked systemd: $asked"
}

say "upgrading it"
newer=$root/tmp/newer
dpkg-deb --raw-extract "$deb" "$newer"
sed -i 's/^Version: .*/&.1/' "$newer/DEBIAN/control"
echo '# The next version says more.' >>"$newer/etc/svc/svc.env"
if $has_php; then echo '# The next version says more.' >>"$newer/etc/svc/conf.d/00-extension-dir.ini"; fi
dpkg-deb -Zgzip -z1 --root-owner-group --build "$newer" "$root/tmp/newer.deb" >/dev/null
for file in "${edited[@]}"; do echo '# edited' >>"$root/etc/svc/$file"; done
chgrp 0 "$root/etc/svc/svc.env"
manage 'restart svc.service;' install /tmp/newer.deb
for file in "${edited[@]}"; do grep -q '^# edited' "$root/etc/svc/$file" || die "the administrator's $file was replaced"; done
grep -q 'next version' "$root/etc/svc/svc.env.dpkg-dist" || die "the new svc.env is nowhere"
! $has_php || grep -q 'next version' "$root/etc/svc/conf.d/00-extension-dir.ini" || die "a file that was not edited is not the new one"
[ "$(stat -c '%a %g' "$root/etc/svc/svc.env")" = '640 0' ] || die "the rights of svc.env have changed"

say "going back, with files removed by the administrator"
rm "$root/etc/svc/svc.env" "$root/etc/svc/svc.env.dpkg-dist"
manage 'restart svc.service;' install /tmp/svc.deb
[ ! -e "$root/etc/svc/svc.env" ] || die "a file that the administrator has removed is back"
inside svc version >/dev/null

say "removing it"
manage 'stop svc.socket svc-ops.socket;stop svc.service;' remove svc
! $has_php || grep -q '^# edited' "$root/etc/svc/php.ini" || die "the administrator's php.ini is gone"
[ ! -e "$root/usr/bin/svc" ] && [ ! -e "$root/usr/lib/svc/libphp.so" ] && [ -d "$root/var/lib/svc" ] || die "it is not removed"
say "purging it"
manage '' purge svc
for path in etc/svc usr/lib/svc usr/share/svc var/lib/svc; do [ ! -e "$root/$path" ] || die "/$path is left"; done
say "passed"
