#!/usr/bin/env bash
# Prints the folder with the classes of Symfony's kernel, router, sessions and runtime, and of Twig, laid out by namespace.
#
# They come from the machine's package archive (see unpack.sh).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=unpack.sh
. "$here/unpack.sh"

packages=(
    php-psr-container php-psr-event-dispatcher php-psr-log php-symfony-deprecation-contracts php-symfony-error-handler
    php-symfony-event-dispatcher php-symfony-event-dispatcher-contracts php-symfony-http-foundation
    php-symfony-http-kernel php-symfony-routing php-symfony-runtime php-symfony-service-contracts php-symfony-var-dumper php-twig
)

provide symfony 2 "${packages[@]}"
echo "$home/usr/share/php"
