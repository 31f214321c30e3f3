#!/usr/bin/env bash
# Builds extensions for the PHP that php-zts.sh finds ($SVC_PHP_CONFIG first, so that it may be a debug build).
#
#   scripts/php-extensions.sh           prints a folder with redis.so and memcached.so, which are built once for each PHP
#   scripts/php-extensions.sh NAME...   builds each of these, puts it among the extensions of that PHP, where the server,
#                                       `svc php` and `make install` find it, and prints its path
#
# NAME is a folder with the sources of an extension (with a config.m4), an extension in PHP's own sources (tidy, dba,
# pdo_odbc), or one that Debian packages as php-NAME (apcu, igbinary). The sources of the latter are those of the first
# release in the machine's archives whose version knows that PHP and compiles. EXTENSION_FLAGS are further flags of
# configure. An extension that needs the headers of a library needs its -dev package installed. Serializers and compressors
# of redis and memcached that need further libraries are left out. Progress goes to standard error.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tool='php-extensions'
# shellcheck source-path=SCRIPTDIR source=once.sh
. "$here/once.sh"
# shellcheck source-path=SCRIPTDIR source=archives.sh
. "$here/archives.sh"

# Increase it when a change below requires a new build.
recipe=1

build_packages=(autoconf build-essential libmemcached-dev pkg-config zlib1g-dev)

# Unpacks what the authors of the extension $1 released as version $2, without the package's own files, in $apt_home/tree.
download() {
    (
        cd "$apt_home"
        rm -rf tree "php-$1"_*.orig.tar.*
        mkdir tree
        private_apt apt-get source -qq --download-only --tar-only "php-$1=$2" && tar -x -f "php-$1"_*.orig.tar.* -C tree
    ) >>"$apt_home/log" 2>&1
}

# Builds the extension $1 in $apt_home/tree with the flags of configure $2...
compile() {
    local name=$1 config_m4
    shift
    # The files of the extension are in a folder of their own, as PECL packs them.
    config_m4=$(find "$apt_home/tree" -maxdepth 3 -name 'config*.m4' -printf '%d %p\n' | sort -n | sed -n '1s/^[0-9]* //p')
    [ -n "$config_m4" ] || return 1
    (
        cd "$(dirname "$config_m4")"
        # Some of PHP's own are named config0.m4, so that PHP's build reads them first.
        [ -e config.m4 ] || mv "${config_m4##*/}" config.m4
        "$phpize" && ./configure --with-php-config="$config" "$@" && make -j"$(nproc)" && cp modules/*.so "$work/"
    ) >>"$apt_home/log" 2>&1
}

# Builds the extension $1 as php-extensions.sh NAME does, and prints its path.
add() {
    local name=$1 folder='' option source
    [ ! -d "$1" ] || folder=$(cd "$1" && pwd) name=$(basename "$(cd "$1" && pwd)")
    name=${name%%-[0-9]*}
    option=${name//_/-}
    rm -rf "$work" && mkdir -p "$work"
    # configure ignores options that it does not know.
    local flags=("--enable-$option" "--with-$option")
    # shellcheck disable=SC2206
    flags+=(${EXTENSION_FLAGS:-})
    # grep -q would end before PHP has written everything, and so make PHP fail.
    if [ -z "$folder" ] && "$php" -m | grep -ixF "$name" >/dev/null; then
        say "$name is part of this PHP"
        return
    fi
    source=$("$here/php-zts.sh" --source 2>/dev/null || true)
    [ -n "$folder" ] || [ ! -d "$source/ext/$name" ] || folder=$source/ext/$name
    if [ -n "$folder" ]; then
        say "building $name of $folder for PHP $("$config" --version)"
        rm -rf "$apt_home/tree"
        cp -r "$folder" "$apt_home/tree"
        compile "$name" "${flags[@]}" ||
            { tail -n 20 "$apt_home/log" >&2; die "$folder cannot be built with this PHP"; }
    else
        provide "$name" 0 "${flags[@]}"
    fi
    for built in "$work"/*.so; do
        install -m 755 "$built" "$extensions/"
        say "load it with the line ${zend[$(nm -D --defined-only "$built" | grep -c ' zend_extension_entry$' || true)]}extension=$(basename "$built" .so), in a file of $prefix/etc/conf.d or with -d"
        echo "$extensions/${built##*/}"
    done
}
zend=('' zend_)

# provide NAME MINIMUM FLAG...: builds an extension of at least that version, which is the first that knows PHP 8.4.
provide() {
    local name=$1 minimum=$2 suite version uris
    shift 2
    mapfile -t uris < <(archive_uris)
    for suite in trixie forky sid "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" questing resolute; do
        use_suite deb-src "$suite" "${uris[@]}"
        for version in $(source_versions "php-$name"); do
            dpkg --compare-versions "$version" ge "$minimum" || continue
            say "building $name $version of $suite for PHP $("$config" --version)"
            if download "$name" "$version" && compile "$name" "$@"; then
                echo "$name $version ($suite)" >>"$work/.source"
                return
            fi
            say "$name $version of $suite cannot be built with this PHP"
        done
    done
    tail -n 20 "$apt_home/log" >&2
    die "no archive configured on this machine has sources of $name for PHP $("$config" --version)"
}

config=$("$here/php-zts.sh" 2>/dev/null) || config=$("$here/php-zts.sh")
phpize=$(dirname "$config")/$(basename "$config" | sed 's/php-config/phpize/')
[ -x "$phpize" ] || die "$phpize is missing; it belongs to the development files of PHP"

prefix=$("$config" --prefix)
if [ $# -gt 0 ]; then
    case $1 in -*) die "unknown option: $1 (see the comment at the top of $0)" ;; esac
    php=$("$config" --php-binary)
    extensions=$("$config" --extension-dir)
    mkdir -p "$extensions" && [ -w "$extensions" ] || die "$extensions cannot be written by $(id -un)"
    "$here/system-packages.sh" autoconf binutils build-essential pkg-config || exit 1
    make_apt_home
    work=$apt_home/extensions
    for name; do add "$name"; done
    exit
fi

# Builds the two that the tests need, in $home.
build_for_tests() {
    "$here/system-packages.sh" "${build_packages[@]}" || exit 1
    make_apt_home
    work=$apt_home/extensions
    mkdir -p "$work"
    provide redis 6.1 --enable-redis
    provide memcached 3.3 --enable-memcached --disable-memcached-sasl
    touch "$work/.complete"
    rm -rf "$home"
    mv "$work" "$home"
}

# A build of php-zts.sh has a name that tells them all apart.
case $prefix in
"$cache"/*) build=${prefix##*/} ;;
*) build=php-$("$config" --version)-$(cksum <<<"$config" | cut -d ' ' -f 1) ;;
esac
once "extensions-$build-r$recipe" .complete build_for_tests
echo "$home"
