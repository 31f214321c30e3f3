#!/usr/bin/env bash
# Prints the folder with the classes of Laravel and its dependencies, laid out by namespace.
#
# They come from the machine's package archive (see unpack.sh).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=unpack.sh
. "$here/unpack.sh"

packages=(
    php-illuminate-{auth,bus,cache,collections,config,console,container,contracts,cookie,database,encryption,events}
    php-illuminate-{filesystem,hashing,http,log,macroable,pagination,pipeline,queue,routing,session,support,testing}
    php-illuminate-{translation,validation,view}
    php-symfony-{console,deprecation-contracts,error-handler,event-dispatcher,event-dispatcher-contracts,finder}
    php-symfony-{http-foundation,http-kernel,mime,process,routing,service-contracts,string,translation}
    php-symfony-{translation-contracts,var-dumper}
    php-brick-math php-doctrine-inflector php-email-validator php-graham-campbell-result-type php-laravel-framework
    php-laravel-serializable-closure php-monolog php-nesbot-carbon php-opis-closure php-phpoption php-psr-container
    php-psr-event-dispatcher php-psr-log php-psr-simple-cache php-ramsey-collection php-ramsey-uuid php-vlucas-phpdotenv
    php-voku-portable-ascii
)

provide laravel 1 "${packages[@]}"
echo "$home/usr/share/php"
