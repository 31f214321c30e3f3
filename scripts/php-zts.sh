#!/usr/bin/env bash
# Prints the path of a php-config whose libphp svc can embed; builds that PHP once per machine if there is none.
#
# Requirements: a series in the file php-series (the first is preferred), thread-safe (ZTS), a shared libphp, built without Zend signals and with Zend's
# execution timers. Tried in order: $SVC_PHP_CONFIG (an error if it does not fit), php-config on PATH, the build
# of an earlier run in the cache folder, a new build there.
#
# The sources are the newest in the machine's Debian or Ubuntu archive, including its updates and security suites. The
# script uses package lists of its own and does not change those of the system. Progress and the version of PHP go to
# standard error; standard output contains only the path.
#
#   scripts/php-zts.sh                 path of the php-config
#   scripts/php-zts.sh --update        the same, after a build if the archive has a newer PHP than the cache folder
#   scripts/php-zts.sh --version 8.3   path of the php-config of a build of that series
#   scripts/php-zts.sh --source        path of the sources of that PHP (PHP's own tests); fetched if they are not there
#   scripts/php-zts.sh --debug         path of the php-config of a build with PHP's own assertions and leak reports
#   scripts/php-zts.sh --asan          the same, and with AddressSanitizer in libphp
#   scripts/php-zts.sh --packages      Debian packages that a build would need; nothing if there is a PHP that fits
#   scripts/php-zts.sh --archives      URLs of the machine's archives, as the other options use them
#
# --debug and --asan are for `make sanitize`: they include little more than the tests need. They, and those of --version,
# are always built by this script. If the machine's archive lacks a series, it comes from another distribution's archive,
# with signatures checked, if SVC_DEBIAN_ARCHIVE or SVC_UBUNTU_ARCHIVE names one. Without any archive, for example on Fedora
# or Arch, the sources are those of a folder php-src-8.x.y that is in the cache folder: a release of PHP, unpacked.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tool=php-zts
started=$SECONDS
# shellcheck source-path=SCRIPTDIR source=once.sh
. "$here/once.sh"
# shellcheck source-path=SCRIPTDIR source=archives.sh
. "$here/archives.sh"
# shellcheck source-path=SCRIPTDIR source=php-sources.sh
. "$here/php-sources.sh"

# Increase it when a change below requires a new build; the second is for --debug and --asan.
recipe=3
debug_recipe=2

# The flags of every build.
configure_flags=(
    --enable-zts --disable-zend-signals --enable-zend-max-execution-timers
    --enable-embed=shared --enable-cli --disable-cgi --disable-phpdbg --without-pear
    --enable-bcmath --enable-intl --enable-mbstring --enable-opcache --enable-pcntl --enable-sockets
    --enable-mysqlnd --with-mysqli=mysqlnd --with-pdo-mysql=mysqlnd --with-pgsql --with-pdo-pgsql
    --with-curl --with-external-pcre --with-openssl --with-zlib
)
# Those of the server's PHP: the extensions of Debian's php-fpm except FFI and readline, and others that applications need.
# --debug and --asan do without, so that they build faster.
server_flags=(
    --enable-calendar --enable-exif --enable-ftp --enable-gd --enable-shmop --enable-soap --enable-sysvmsg --enable-sysvsem
    --enable-sysvshm --with-bz2 --with-freetype --with-gettext --with-gmp --with-jpeg --with-ldap --with-sodium --with-webp
    --with-xsl --with-zip
    # PHP 8.3 would name the system's own folder of libraries in libphp, which a package may not.
    --disable-rpath
)
build_packages=(
    build-essential bison patch pkg-config re2c
    libbz2-dev libcurl4-openssl-dev libfreetype-dev libgmp-dev libicu-dev libjpeg-dev libldap-dev libonig-dev libpcre2-dev
    libpng-dev libpq-dev libsodium-dev libsqlite3-dev libssl-dev libwebp-dev libxml2-dev libxslt1-dev libzip-dev zlib1g-dev
)
# What unpacks Debian's source packages.
if command -v apt-get >/dev/null; then build_packages+=(dpkg-dev); fi

read -ra supported <"$here/php-series"
supported_range=$(printf '%s\n' "${supported[@]}" | sort -V | sed -n '1h;${x;G;s/\n/ to /p}')

# Whether $1 is a supported series.
is_supported() { case " ${supported[*]} " in *" $1 "*) ;; *) return 1 ;; esac }

# Prints why the php-config $1 does not fit; prints nothing if it does.
misfit() {
    local id header
    id=$("$1" --vernum 2>/dev/null) || { echo 'it cannot be executed'; return; }
    header=$("$1" --include-dir)/main/php_config.h
    if [ ! -r "$header" ]; then
        echo "its headers are missing ($header)"
    elif ! is_supported "$((id / 10000)).$((id / 100 % 100))"; then
        echo "it is PHP $("$1" --version), but svc requires $supported_range"
    elif ! grep -q '^#define ZTS 1' "$header"; then
        echo 'it is not thread-safe (configure with --enable-zts)'
    elif grep -q '^#define ZEND_SIGNALS 1' "$header"; then
        echo 'it has Zend signals (configure with --disable-zend-signals)'
    elif ! grep -q '^#define ZEND_MAX_EXECUTION_TIMERS 1' "$header"; then
        echo 'it lacks execution timers (configure with --enable-zend-max-execution-timers)'
    elif ! compgen -G "$("$1" --prefix)/lib*/libphp.so" >/dev/null; then
        echo 'it has no shared libphp (configure with --enable-embed=shared)'
    fi
}

# Prints the php-config $1, and describes that PHP, with its source if this script built it.
chosen() {
    local from=${1%/bin/php-config}/.source
    if [ -r "$from" ]; then
        say "PHP $("$1" --version), built from $(cat "$from") on $(date -r "$from" +%F); --update checks for a newer one"
    else
        say "using PHP $("$1" --version) from $1"
    fi
    echo "$1"
}

# Compiles and reports progress: a line per 100 compiled files.
compile() {
    local log=$1 total count=0
    total=$(make -n 2>/dev/null | grep -c -- '--mode=compile' || true)
    # These two take as long as a hundred others, and would be waited for if they came last.
    make -j"$(nproc)" ext/date/lib/parse_date.lo Zend/zend_execute.lo all 2>&1 | tee "$log" | while IFS= read -r line; do
        case $line in *--mode=compile*)
            count=$((count + 1))
            ((count % 100)) || say "compiled $count of $total files after $((SECONDS - started)) s"
        esac
    done
}

# Sets cflags, cxxflags, ldflags and the flags of configure for the requested build.
#
# Calls within libphp go through its table of addresses, without a stop in its procedure linkage table: docs/performance.md
# says what this and other options bring.
choose_flags() {
    local multiarch
    flags=("${configure_flags[@]}")
    case $variant in
    -debug | -asan)
        cflags='-O1 -g -fno-omit-frame-pointer' cxxflags=-O1 ldflags=''
        flags+=(--enable-debug)
        [ "$variant" != -asan ] || flags+=(--enable-address-sanitizer)
        ;;
    *)
        cflags='-O2 -fno-semantic-interposition -fno-plt' cxxflags='-O2 -fno-plt' ldflags=-Wl,-z,now
        flags+=("${server_flags[@]}")
        # Where PHP 8.3 looks for libldap.
        multiarch=$(cc -print-multiarch 2>/dev/null || true)
        [ -z "$multiarch" ] || flags+=("--with-libdir=lib/$multiarch")
        ;;
    esac
}

# libtool would compile each file twice: for libphp, and for the command-line PHP, which can have the same objects.
compile_once() {
    grep -q '^BUILD_CLI = .*:\.lo=\.o' Makefile || return 0
    sed -i '/^BUILD_CLI = /s/:\.lo=\.o//g' Makefile
    sed -i 's/^build_old_libs=yes$/build_old_libs=no/' libtool
}

build() {
    local source=$1 prefix=$2 work=$2.work log=$2.log cflags cxxflags ldflags flags
    choose_flags
    "$here/system-packages.sh" "${build_packages[@]}" || exit 1
    rm -rf "$work" "$prefix"
    mkdir -p "$work" "$prefix"
    cd "$work"
    say "configuring (log: $log)"
    CFLAGS=$cflags CXXFLAGS=$cxxflags LDFLAGS=$ldflags \
        "$source/configure" --quiet --prefix="$prefix" --with-config-file-path="$prefix/etc" \
        --with-config-file-scan-dir="$prefix/etc/conf.d" "${flags[@]}" >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "configure failed"; }
    # Where Debian's packages of PHP libraries are.
    sed -i 's|^#define PHP_INCLUDE_PATH.*|#define PHP_INCLUDE_PATH\t".:/usr/share/php"|' main/build-defs.h
    compile_once
    compile "$log" || { grep -iE 'error' "$log" | head -n 20 >&2; die "the build failed; see $log"; }
    local parts=(install-cli install-headers install-build install-programs install-sapi)
    # If everything is part of libphp, there are no modules, and make would fail to copy them.
    if compgen -G 'modules/*.so' >/dev/null; then parts+=(install-modules); fi
    make "${parts[@]}" >>"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "installing into $prefix failed"; }
    mkdir -p "$prefix/etc/conf.d"
    [ ! -e "$("$prefix/bin/php-config" --extension-dir)/opcache.so" ] ||
        echo 'zend_extension=opcache' >"$prefix/etc/conf.d/10-opcache.ini"
    cd / && rm -rf "$work"
    [ ! -e "$source/.source" ] || cp "$source/.source" "$prefix/.source"
    touch "$prefix/.complete"
}

# Prints the newest php-config in the cache folder that fits, of the variant $1 and its recipe $2.
kept_build() {
    local prefix
    while IFS= read -r prefix; do
        if [ -e "$prefix/.complete" ] && [ -z "$(misfit "$prefix/bin/php-config")" ]; then
            echo "$prefix/bin/php-config"
            return
        fi
    done < <(find "$cache" -maxdepth 1 -type d -name "php-${series:-8}.*-zts$1-r$2" 2>/dev/null | sort -rV)
    return 1
}

# Builds the sources in $1 and prints the php-config.
build_here() {
    local source=$1 prefix=$cache/php-${1##*/php-src-}-zts$variant-r$recipe why
    say "building PHP ${source##*/php-src-} in $cache (about 5 minutes on two cores)"
    (build "$source" "$prefix") || exit 1
    why=$(misfit "$prefix/bin/php-config")
    [ -z "$why" ] || die "the build in $prefix is not usable: $why"
    say "built in $((SECONDS - started)) s"
    echo "$prefix/bin/php-config"
}

# Prints the php-config of the newest PHP in the archive; builds it unless it is the one of php-config $1.
update() {
    local have source status=0
    make_apt_home
    # For a build without a record of its sources, PHP's own version is used.
    have=$(sed -nE 's/^[^ ]+ ([^ ]+) .*/\1/p' "${1%/bin/php-config}/.source" 2>/dev/null || "$1" --version)
    source=$(newest_source "$have") || status=$?
    case $status in
    0) build_here "$source" ;;
    2) say "no version newer than PHP $have is available" && echo "$1" ;;
    *) tail -n 20 "$apt_home/log" >&2 && die "no archive configured on this machine has sources of PHP $supported_range" ;;
    esac
}

verb=${1:-} variant='' series=''
case $verb in
'' | --packages | --source | --update) ;;
--archives) archive_uris && exit ;;
--debug | --asan)
    variant=-${verb#--}
    # They use the version of PHP that the server uses.
    version=$(! kept=$(kept_build '' "$recipe") || "$kept" --version)
    recipe=$debug_recipe
    ;;
--version)
    variant=-series series=${2:-}
    is_supported "$series" || die "--version requires one of ${supported[*]}"
    ;;
*) die "unknown option: $verb (see the comment at the top of $0)" ;;
esac

# A php-config that was named, which must fit, or the one on PATH.
given=''
if [ -n "$variant" ]; then
    :
elif [ -n "${SVC_PHP_CONFIG:-}" ]; then
    why=$(misfit "$SVC_PHP_CONFIG")
    [ -z "$why" ] || die "SVC_PHP_CONFIG=$SVC_PHP_CONFIG is not usable: $why"
    given=$SVC_PHP_CONFIG
elif onpath=$(command -v php-config) && [ -z "$(misfit "$onpath")" ]; then
    given=$onpath
fi
# An existing build is found without waiting for another process that builds.
kept=$(kept_build "$variant" "$recipe" || true)

# Questions are answered before anything is created.
case $verb in
--packages)
    [ -n "$given$kept" ] || printf '%s\n' "${build_packages[@]}"
    exit
    ;;
--source)
    config=${given:-$kept}
    version=${config:+$("$config" --version)}
    series=${version%.*}
    if [ -n "$version" ] && kept_source "$version"; then exit; fi
    "$here/system-packages.sh" dpkg-dev patch || exit 1
    ;;
*)
    case $verb,$given in
    --update,"$cache"/* | --update,) ;;
    --update,*) die "$given was not built by this script; update it the way it was installed" ;;
    *) [ -z "$given$kept" ] || { chosen "${given:-$kept}" && exit; } ;;
    esac
    "$here/system-packages.sh" "${build_packages[@]}" || exit 1
    ;;
esac

# One process builds, and others that need the same build wait for it. It may then be there.
lock "lock$variant"
kept=$(kept_build "$variant" "$recipe" || true)
case $verb,$kept in
--source,*) fetch_source "$version" ;;
--update,?*) update "$kept" ;;
*,?*) chosen "$kept" ;;
*)
    say "no thread-safe PHP${variant:+ for ${verb#--} $series} found: building one (only needed once)"
    [ -n "$verb$variant" ] || say "make build-lean takes less time: svc then runs the PHP of your distribution (docs/fastcgi.md)"
    source=$(fetch_source "${version:-}")
    build_here "$source"
    ;;
esac
