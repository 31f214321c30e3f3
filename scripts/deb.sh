#!/usr/bin/env bash
# Builds a Debian package of the server for the machine's release, and prints its path. SVC is the binary
# (target/release/svc), OUT the folder for the package (target/deb). The package of a binary without PHP depends on the
# distribution's php-cgi or php-fpm, and its version ends in +fastcgi.
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")/.." && pwd)
SVC=$(realpath "${SVC:-$here/target/release/svc}")
OUT=${OUT:-$here/target/deb}

die() { printf 'deb: %s\n' "$*" >&2; exit 1; }

[ -x "$SVC" ] || die "$SVC is not there; run make build first"
"$here/scripts/system-packages.sh" debhelper dpkg-dev fakeroot lintian >&2 || exit 1

# Two at a time would build in the same folder.
mkdir -p "$OUT"
exec 9>"$OUT/lock"
flock 9

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$here/Cargo.toml")
# A package of one release does not suit the libraries of another.
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-unknown}")
package_version=$version+$release
has_php=true
if ! readelf -d "$SVC" | grep '(NEEDED).*libphp' >/dev/null; then
    has_php=false
    package_version+=+fastcgi
fi
# Of a checkout, the time of its commit; the same sources give the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || stat -c %Y "$here/Cargo.toml")}
export SOURCE_DATE_EPOCH

maintainer="${DEBFULLNAME:-svc maintainers} <${DEBEMAIL:-svc@localhost.localdomain}>"
work=$OUT/svc-$version
log=$OUT/build.log
rm -rf "$work"
mkdir -p "$work"
cp -r "$here/deploy/debian" "$work/debian"
sed -i "s/^Maintainer: .*/Maintainer: $maintainer/" "$work/debian/control"
# debhelper's names of units: those of the package, and further ones.
cp "$here/deploy/svc.service" "$here/deploy/svc.socket" "$work/debian/"
cp "$here/deploy/svc-ops.socket" "$work/debian/svc.svc-ops.socket"
cp "$here/deploy/svc.env" "$work/"

# Replaces the parts about the PHP in the package.
depend_on_fastcgi() {
    sed -i -e 's/^Depends: /&php-cgi | php-fpm, /' -e '/^Description: /,$d' "$work/debian/control"
    cat >>"$work/debian/control" <<'CONTROL'
Description: PHP application server, for php-cgi and php-fpm
 svc serves static files and PHP applications over HTTP/1.1 and HTTP/2, with
 TLS, from a single process. A separate port answers health probes and has
 metrics and the effective configuration.
 .
 In this variant, PHP runs in processes of the distribution's php-cgi, or in a
 php-fpm (EXECUTOR=fastcgi).
CONTROL
    sed -i '/^Files: usr\/lib\/svc\/libphp.so/,$d' "$work/debian/copyright"
    sed -i '/libgd\|embedded-library\|^# PHP/d' "$work/debian/svc.lintian-overrides"
    cat >>"$work/svc.env" <<'ENV'

# PHP runs in php-cgi; with FASTCGI_ADDR=unix:/run/php/php-fpm.sock, in a php-fpm whose socket the user svc can open.
EXECUTOR=fastcgi
ENV
}
$has_php || depend_on_fastcgi

cat >"$work/debian/changelog" <<CHANGELOG
svc ($package_version) unstable; urgency=medium

  * Built from the sources of svc $version.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG

# license NAME FILE: the text of a license, as the copyright file has it.
license() {
    printf '\nLicense: %s\n' "$1"
    sed 's/[[:space:]]*$//; s/^$/./; s/^/ /' "$2"
}
php_license=
if $has_php; then php_license=$("$here/scripts/php-zts.sh" --source 2>/dev/null)/LICENSE; fi
{
    license Expat "$here/LICENSE-MIT"
    printf '\nLicense: Apache-2.0\n The text is in /usr/share/common-licenses/Apache-2.0.\n'
    if [ -r "$php_license" ]; then
        license PHP-3.01 "$php_license"
    elif $has_php; then
        printf '\nLicense: PHP-3.01\n The PHP License, version 3.01: https://www.php.net/license/3_01.txt\n'
    fi
} >>"$work/debian/copyright"

(
    cd "$work"
    SVC_SOURCE=$here SVC=$SVC dpkg-buildpackage --build=binary --no-sign --no-check-builddeps
) >"$log" 2>&1 || { tail -n 30 "$log" >&2; die "the package was not built; see $log"; }
deb=$OUT/svc_${package_version}_$(dpkg --print-architecture).deb
[ -e "$deb" ] || die "$deb was not built; see $log"
# It warns of root, who builds in containers.
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$deb" >&2 ||
    die "lintian objects to $deb"
rm -rf "$work"
echo "$deb"
