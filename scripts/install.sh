#!/usr/bin/env bash
# Installs the server below PREFIX (/usr/local), with the PHP that it was built with, if any:
#
#   bin/svc                   the server
#   lib/svc/libphp.so         its PHP, bin/php the command-line PHP of the same build, extensions/ their extensions
#   lib/svc/etc               php.ini and conf.d of that PHP; an existing php.ini stays
#   lib/svc/plugins           where PLUGINS looks for names
#   lib/svc/installed-files   what --remove removes, and the next installation if it has no such file any more
#   include/svc_plugin.h      the contract with plugins
#   share                     the manual page, the completions of shells
#   share/svc                 the welcome page, alerts, board, stubs for editors, the crate for plugins in Rust
#   share/doc/svc             the pages of docs
#
# Nothing in there depends on where it is: the tree can be packed and moved as a whole. DESTDIR is put in front of PREFIX,
# and appears in no file. SVC is the binary (target/release/svc).
#
#   scripts/install.sh             installs
#   scripts/install.sh --remove    removes what was installed; files of others, and a php.ini that was edited, stay
set -euo pipefail
# Whoever installs may keep their own files private; these are for all users.
umask 022
# Paths are replaced in binaries: a character is a byte.
export LC_ALL=C

here=$(cd "$(dirname "$0")/.." && pwd)
SVC=${SVC:-$here/target/release/svc}
PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}

die() { printf 'install: %s\n' "$*" >&2; exit 1; }

case $PREFIX in /*) ;; *) die "PREFIX=$PREFIX is not an absolute path" ;; esac
# PHP separates folders by colons, and reads quotes, dollars and backslashes in its ini files.
case $PREFIX in *[:\"\$\\$'\n']*) die "PREFIX=$PREFIX has a character that PHP's ini files cannot have in a path" ;; esac
PREFIX=${PREFIX%/}
root=$DESTDIR$PREFIX
home=$root/lib/svc
list=$home/installed-files

default_php_ini() {
    cat <<'INI'
; Directives of svc's PHP, for the server and for `svc php`. Files in conf.d are read after this one.
; The server begins with the values of php.ini-production.
INI
}

# Removes the files that standard input names, below $root.
remove() {
    local name
    while IFS= read -r name; do
        case /$name/ in */../*) ;; *) rm -f "$root/$name" ;; esac
    done
}

if [ "${1:-}" = --remove ]; then
    [ -r "$list" ] || die "nothing was installed in $root"
    if default_php_ini | cmp -s - "$home/etc/php.ini"; then rm "$home/etc/php.ini"; fi
    names=$(cat "$list" && echo lib/svc/installed-files)
    remove <<<"$names"
    # The other folders may have been there before.
    find "$home" "$root/share/svc" "$root/share/doc/svc" -depth -type d -empty -delete 2>/dev/null || true
    [ ! -e "$home" ] || { echo "install: left in place:" && find "$home" ! -type d; } >&2
    exit
fi
[ $# = 0 ] || die "unknown option: $1 (see the comment at the top of $0)"

[ -x "$SVC" ] || die "$SVC is not there; run make build first"
command -v readelf >/dev/null && command -v strip >/dev/null || die "readelf and strip are missing: install binutils"

# The binary itself knows which PHP it was linked with, whoever installs it. One without PHP uses FastCGI.
origin='$ORIGIN/../lib/svc:'
runpath=$(readelf -d "$SVC" | sed -n 's/.*(RUNPATH).*\[\(.*\)\]$/\1/p')
has_php=false
if readelf -d "$SVC" | grep '(NEEDED).*libphp' >/dev/null; then has_php=true; fi
php_prefix=/usr
if $has_php; then
    case $runpath in
    "$origin"*) libraries=${runpath#"$origin"} ;;
    *) die "$SVC was not built with PHP here: its RUNPATH is \"$runpath\"" ;;
    esac
    php_prefix=${libraries%/lib*}
    config=${SVC_PHP_CONFIG:-$php_prefix/bin/php-config}
    [ -x "$config" ] || die "$config is missing"
    [ -r "$libraries/libphp.so" ] || die "$libraries/libphp.so is missing"
fi

# Folders of whoever has built it, who need not be the one who installs it.
builder=$(getent passwd "$(stat -L -c %u "$SVC")" | cut -d: -f6) || builder=''
cargo_homes=("${CARGO_HOME:-}" "${HOME:-$builder}/.cargo" "$builder/.cargo")
caches=("$(dirname "$php_prefix")" "${XDG_CACHE_HOME:-${HOME:-$builder}/.cache}/svc" "$builder/.cache/svc")

mkdir -p "$root" 2>/dev/null && [ -w "$root" ] || die "$root cannot be written by $(id -un)"

# Replaces the path $1 in the file $3 by $2, with as many slashes behind it as keep the length.
rename() {
    local from=$1 to=$2 file=$3
    [ ${#to} -le ${#from} ] || to=
    while [ ${#to} -lt ${#from} ]; do to+=/; done
    from=$(sed 's/[][\.*^$|]/\\&/g' <<<"$from")
    to=$(sed 's/[&|\\]/\\&/g' <<<"$to")
    sed -i "s|$from|$to|g" "$file"
}

names=''
# Notes that $1, a path below $root, belongs to what is installed.
note() { names+=$1$'\n'; }

# Copies a program or library, without symbols for debuggers and without paths of this machine. They would not be used:
# PHP reads its paths from its environment (sapi/installation.rs). The first of them suits a tree that was not moved.
put() {
    local from=$1 to=$root/$2 folder
    # A file that a running server has mapped is replaced, not written to.
    install -m 755 "$from" "$to.new"
    strip --strip-unneeded "$to.new"
    case $php_prefix in
    /usr | /usr/local | /opt | /opt/* | "$PREFIX/lib/svc") ;;
    *) rename "$php_prefix" "$PREFIX/lib/svc" "$to.new" ;;
    esac
    for folder in "${caches[@]}"; do
        case $folder in */svc) rename "$folder" /usr/src/ "$to.new" ;; esac
    done
    for folder in "${cargo_homes[@]}"; do
        case $folder in /?*/?*) rename "$folder/" /usr/src/ "$to.new" ;; esac
    done
    rename "$here/" /usr/src/ "$to.new"
    # What follows the first place is for the build tree.
    sed -i 's|\$ORIGIN/\.\./lib/svc:|$ORIGIN/../lib/svc\x00|' "$to.new"
    mv "$to.new" "$to"
    note "$2"
}

# Writes standard input to the file $1 below $root. It notes the name, so it is no part of a pipeline.
write() {
    install -d "$(dirname "$root/$1")"
    cat >"$root/$1.new"
    mv "$root/$1.new" "$root/$1"
    note "$1"
}

install -d "$root/bin" "$home"
put "$SVC" bin/svc

# Installs PHP beside the server, with its ini files.
install_php() {
    local php extension
    install -d "$home/bin" "$home/extensions" "$home/plugins" "$home/etc/conf.d"
    put "$libraries/libphp.so" lib/svc/libphp.so
    php=$("$config" --php-binary)
    [ -x "$php" ] || die "$php is missing: PHP was built without its command line (--enable-cli)"
    put "$php" lib/svc/bin/php
    for extension in "$("$config" --extension-dir)"/*.so; do
        [ ! -e "$extension" ] || put "$extension" "lib/svc/extensions/${extension##*/}"
    done
    # php.ini-production's values are built into the server (docs/php.md).
    [ -e "$home/etc/php.ini" ] || { default_php_ini | install -m 644 /dev/stdin "$home/etc/php.ini"; }
    write lib/svc/etc/conf.d/00-extension-dir.ini <<INI
; Both find their extensions beside them, unless the environment says otherwise.
extension_dir="\${PHP_EXTENSION_DIR:-$PREFIX/lib/svc/extensions}"
INI
    write lib/svc/etc/conf.d/20-sessions.ini <<'INI'
; The unit for systemd names a folder: sessions survive a restart there, and would not in the unit's own /tmp.
session.save_path="${PHP_SESSION_DIR:-}"
INI
    if [ -e "$("$config" --extension-dir)/opcache.so" ]; then
        write lib/svc/etc/conf.d/10-opcache.ini <<<'zend_extension=opcache'
    fi
    runpath=$(readelf -d "$root/bin/svc" | sed -n 's/.*(RUNPATH).*\[\(.*\)\]$/\1/p')
    [ "$runpath" = "${origin%:}" ] || die "the RUNPATH of $root/bin/svc is \"$runpath\""
}

# Installs the contract with plugins, which need PHP in the process, and the crate for them. The crate stands alone there:
# values inherited from the workspace are filled in.
install_plugin_api() {
    local text file
    write include/svc_plugin.h <"$here/include/svc_plugin.h"
    text=$(awk -F ' = ' -v tree="$here/Cargo.toml" '
        BEGIN { while ((getline line <tree) > 0) { if (line ~ /^\[/) part = line; else if (part == "[workspace.package]") { split(line, pair, " = "); of[pair[1]] = pair[2] } } }
        /^\[lints\]/ { exit }
        /\.workspace = true$/ { sub(/\.workspace$/, "", $1); print $1 " = " of[$1]; next }
        { print }' "$here/plugin/Cargo.toml")
    write share/svc/plugin/Cargo.toml <<<"$text"
    for file in "$here"/plugin/*.rs; do write "share/svc/plugin/${file##*/}" <"$file"; done
}

if $has_php; then
    install_php
    install_plugin_api
fi

text=$("$SVC" man)
write share/man/man1/svc.1 <<<"$text"
text=$("$SVC" completions bash)
write share/bash-completion/completions/svc <<<"$text"
text=$("$SVC" completions zsh)
write share/zsh/site-functions/_svc <<<"$text"
text=$("$SVC" completions fish)
write share/fish/vendor_completions.d/svc.fish <<<"$text"
write share/svc/welcome/index.html <"$here/deploy/welcome.html"
write share/svc/welcome-container/index.html <"$here/deploy/welcome-container.html"
write share/svc/prometheus/alerts.yml <"$here/deploy/prometheus/alerts.yml"
write share/svc/grafana/svc.json <"$here/deploy/grafana/svc.json"
write share/svc/stubs/svc.php <"$here/stubs/svc.php"

# The pages keep their places in the tree, so that links between them work.
write share/doc/svc/README.md <"$here/README.md"
for file in "$here"/docs/*.md; do write "share/doc/svc/docs/${file##*/}" <"$file"; done
for file in "$here"/docs/images/*; do write "share/doc/svc/docs/images/${file##*/}" <"$file"; done

# What an earlier version had and this one has not, such as an extension that is part of libphp now, would not load.
if [ -r "$list" ]; then
    grep -vxFf <(printf '%s' "$names") "$list" | remove || true
fi
printf '%s' "$names" | write lib/svc/installed-files
