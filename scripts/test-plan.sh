#!/usr/bin/env bash
# Lists what `make test` will install, build and fetch on this machine, and how long that and the tests take. The
# arguments are the Debian packages of the tests.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/svc

say() { printf 'test: %s\n' "$*" >&2; }

# Whether the cache folder has something by a name like $1.
has() { compgen -G "$cache/$1" >/dev/null; }

say 'the tests take about half an hour on two cores; make check and make test-core need neither PHP nor packages'

mapfile -t for_php < <("$here/php-zts.sh" --packages)
missing=$("$here/system-packages.sh" --missing build-essential libclang-dev "${for_php[@]}" "$@")
[ -z "$missing" ] || say "to install with the system's package manager:$missing"

[ ${#for_php[@]} = 0 ] || say "to build once, in $cache: PHP (5 minutes)"
once=()
has 'extensions-*/.complete' || once+=('the extensions redis and memcached (1 minute)')
has 'otelcol-*/otelcol' || once+=('an OpenTelemetry Collector (2 minutes)')
has 'kubestrict-*/kubestrict' || once+=('the types of Kubernetes (1 minute)')
has 'axe-core-*/axe.min.js' || once+=('axe-core')
for name in clients dokuwiki laravel prometheus symfony wordpress; do
    has "$name-r*/.complete" || once+=("$name")
done
[ ${#once[@]} = 0 ] || say "to build or fetch once, in $cache: $(printf '%s, ' "${once[@]}" | sed 's/, $//')"
