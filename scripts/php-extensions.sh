#!/usr/bin/env bash
# Prints the folder with redis.so and memcached.so, built for the PHP that php-zts.sh finds ($SVC_PHP_CONFIG first, so that
# it may be a debug build); builds them once for each PHP of the machine.
#
# The sources are those of Debian's packages php-redis and php-memcached, of the first release in the machine's archives
# whose version knows that PHP and compiles. Serializers and compressors that need further libraries are left out. Progress
# goes to standard error.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/svc
# shellcheck source-path=SCRIPTDIR source=archives.sh
. "$here/archives.sh"

# Increase it when a change below requires a new build.
recipe=1

build_packages=(autoconf build-essential libmemcached-dev pkg-config zlib1g-dev)

say() { printf 'php-extensions: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

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
    config_m4=$(find "$apt_home/tree" -maxdepth 3 -name config.m4 | head -n 1)
    [ -n "$config_m4" ] || return 1
    (
        cd "${config_m4%/config.m4}"
        "$phpize" && ./configure --with-php-config="$config" "$@" && make -j"$(nproc)" && cp "modules/$name.so" "$work/"
    ) >>"$apt_home/log" 2>&1
}

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

# A build of php-zts.sh has a name that tells them all apart.
prefix=$("$config" --prefix)
case $prefix in
"$cache"/*) build=${prefix##*/} ;;
*) build=php-$("$config" --version)-$(cksum <<<"$config" | cut -d ' ' -f 1) ;;
esac
home=$cache/extensions-$build-r$recipe

if [ ! -e "$home/.complete" ]; then
    mkdir -p "$cache"
    # One process builds, and others that need the same build wait for it.
    exec 9>"$home.lock"
    flock 9
fi
if [ ! -e "$home/.complete" ]; then
    "$here/system-packages.sh" "${build_packages[@]}" || exit 1
    make_apt_home
    work=$apt_home/extensions
    mkdir -p "$work"
    provide redis 6.1 --enable-redis
    provide memcached 3.3 --enable-memcached --disable-memcached-sasl
    touch "$work/.complete"
    rm -rf "$home"
    mv "$work" "$home"
fi
echo "$home"
