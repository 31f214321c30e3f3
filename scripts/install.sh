#!/usr/bin/env bash
# Installs the server below PREFIX (/usr/local), with the PHP that it was built with:
#
#   bin/svc                the server
#   lib/svc/libphp.so      its PHP, bin/php the command-line PHP of the same build, extensions/ their extensions
#   lib/svc/etc            php.ini and conf.d; an existing php.ini stays
#   lib/svc/plugins        where PLUGINS looks for names
#   include/svc_plugin.h   the contract with plugins
#
# Nothing in there depends on where it is: the tree can be packed and moved as a whole. DESTDIR is put in front of PREFIX,
# and appears in no file. SVC is the binary (target/release/svc).
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
SVC=${SVC:-$here/target/release/svc}
PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/svc

die() { printf 'install: %s\n' "$*" >&2; exit 1; }

[ -x "$SVC" ] || die "$SVC is not there; run make build first"
case $PREFIX in /*) ;; *) die "PREFIX=$PREFIX is not an absolute path" ;; esac
PREFIX=${PREFIX%/}

# The binary itself knows which PHP it was linked with, whoever installs it.
origin='$ORIGIN/../lib/svc:'
runpath=$(readelf -d "$SVC" | sed -n 's/.*(RUNPATH).*\[\(.*\)\]$/\1/p')
case $runpath in
"$origin"*) libraries=${runpath#"$origin"} ;;
*) die "$SVC was not built with PHP here: its RUNPATH is \"$runpath\"" ;;
esac
php_prefix=${libraries%/lib*}
config=${SVC_PHP_CONFIG:-$php_prefix/bin/php-config}
[ -x "$config" ] || die "$config is missing"
[ -r "$libraries/libphp.so" ] || die "$libraries/libphp.so is missing"

root=$DESTDIR$PREFIX
home=$root/lib/svc

# Replaces the path $1 in the file $3 by $2, with as many slashes behind it as keep the length.
rename() {
    local from=$1 to=$2 file=$3
    [ ${#to} -le ${#from} ] || to=
    while [ ${#to} -lt ${#from} ]; do to+=/; done
    from=$(sed 's/[][\.*^$|]/\\&/g' <<<"$from")
    LC_ALL=C sed -i "s|$from|$to|g" "$file"
}

# Copies a program or library, without symbols for debuggers and without paths of this machine. They would not be used:
# PHP reads its paths from its environment (sapi/installation.rs). The first of them suits a tree that was not moved.
put() {
    local from=$1 to=$2
    # A file that a running server has mapped is replaced, not written to.
    install -m 755 "$from" "$to.new"
    strip --strip-unneeded "$to.new"
    case $php_prefix in
    /usr | /usr/local | /opt | /opt/* | "$PREFIX/lib/svc") ;;
    *) rename "$php_prefix" "$PREFIX/lib/svc" "$to.new" ;;
    esac
    rename "$cache" /usr/src "$to.new"
    rename "${CARGO_HOME:-$HOME/.cargo}/" /usr/src/ "$to.new"
    rename "$here/" /usr/src/ "$to.new"
    # What follows the first place is for the build tree.
    LC_ALL=C sed -i 's|\$ORIGIN/\.\./lib/svc:|$ORIGIN/../lib/svc\x00|' "$to.new"
    mv "$to.new" "$to"
}

install -d "$root/bin" "$root/include" "$home/bin" "$home/extensions" "$home/plugins" "$home/etc/conf.d"
put "$SVC" "$root/bin/svc"
put "$libraries/libphp.so" "$home/libphp.so"
php=$("$config" --php-binary)
[ -x "$php" ] || die "$php is missing: PHP was built without its command line (--enable-cli)"
put "$php" "$home/bin/php"
for extension in "$("$config" --extension-dir)"/*.so; do
    [ ! -e "$extension" ] || put "$extension" "$home/extensions/${extension##*/}"
done
install -m 644 "$here/include/svc_plugin.h" "$root/include/"

# php.ini-production's values are built into the server (docs/php.md).
[ -e "$home/etc/php.ini" ] || cat >"$home/etc/php.ini" <<'INI'
; Directives of svc's PHP, for the server and for `svc php`. Files in conf.d are read after this one.
; The server begins with the values of php.ini-production.
INI
cat >"$home/etc/conf.d/00-extension-dir.ini" <<INI
; Both find their extensions beside them, unless the environment says otherwise.
extension_dir="\${PHP_EXTENSION_DIR:-$PREFIX/lib/svc/extensions}"
INI
if [ -e "$home/extensions/opcache.so" ]; then
    echo 'zend_extension=opcache' >"$home/etc/conf.d/10-opcache.ini"
fi
chmod 644 "$home/etc/php.ini" "$home/etc/conf.d"/*.ini

runpath=$(readelf -d "$root/bin/svc" | sed -n 's/.*(RUNPATH).*\[\(.*\)\]$/\1/p')
[ "$runpath" = "${origin%:}" ] || die "the RUNPATH of $root/bin/svc is \"$runpath\""
