#!/usr/bin/env bash
# Prints the folder with the classes of Guzzle, Symfony's HttpClient, Doctrine DBAL and ORM, Predis and their dependencies,
# laid out by namespace; autoload.php there loads them.
#
# They come from the machine's package archive (see unpack.sh).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=unpack.sh
. "$here/unpack.sh"

packages=(
    php-guzzlehttp-{guzzle,promises,psr7} php-getallheaders
    php-symfony-{http-client,http-client-contracts,service-contracts,deprecation-contracts}
    php-doctrine-{cache,collections,common,dbal,deprecations,event-manager,inflector,instantiator,lexer,orm,persistence}
    php-predis
    php-psr-{cache,container,http-client,http-factory,http-message,log}
)

# The packages' autoloaders look for each other on the include path, and not after they have been loaded. Doctrine's asks
# for that of Symfony's console, for commands that nobody calls here.
assemble() {
    mkdir -p "$home/usr/share/php/Symfony/Component/Console"
    echo '<?php' >"$home/usr/share/php/Symfony/Component/Console/autoload.php"
    cat >"$home/usr/share/php/autoload.php" <<'PHP'
<?php
$path = set_include_path(__DIR__);
foreach (['Doctrine/ORM', 'GuzzleHttp', 'Predis', 'Symfony/Component/HttpClient'] as $library) {
    require_once "$library/autoload.php";
}
set_include_path($path);
unset($path, $library);
PHP
}

provide clients 2 "${packages[@]}"
echo "$home/usr/share/php"
