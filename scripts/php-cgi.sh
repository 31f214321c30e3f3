#!/usr/bin/env bash
# Prints the path of a php-cgi that is the PHP of scripts/php-zts.sh: PHP's own sources of that program, linked with its
# libphp. With it, PHP's tests compare the two executors with the same PHP.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tool=php-cgi
# shellcheck source-path=SCRIPTDIR source=once.sh
. "$here/once.sh"

config=$("$here/php-zts.sh")
prefix=$("$config" --prefix)

build() {
    local source
    source=$("$here/php-zts.sh" --source)
    # shellcheck disable=SC2046 # the options are words
    cc -O2 -w $("$config" --includes) -I"$source/sapi/cgi" -I"$source/main" -o "$home/php-cgi.new" \
        "$source/sapi/cgi/cgi_main.c" "$source/main/fastcgi.c" -L"$prefix/lib" "-Wl,-rpath,$prefix/lib" -lphp >&2 ||
        die "php-cgi was not built"
    mv "$home/php-cgi.new" "$home/php-cgi"
}

once "php-cgi-${prefix##*/}" php-cgi build
echo "$home/php-cgi"
