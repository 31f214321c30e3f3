#!/usr/bin/env bash
# Runs PHP's own tests against svc and compares the failures with the list in docs/conformance.md.
#
#   scripts/phpt.sh [option...]      `scripts/phpt.sh --help` lists them
#
# The tests come from the PHP sources that svc's PHP is built from (scripts/php-zts.sh --source); they are copied to
# a scratch folder, never changed. SVC names the binary under test, target/release/svc by default.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
PHP=$("$here/php-zts.sh" | sed 's,php-config$,php,')
PHP_SOURCE=$("$here/php-zts.sh" --source)
PHPT_FASTCGI=
SVC=$(realpath -m "${SVC:-${CARGO_TARGET_DIR:-$here/../target}/release/svc}")
case " $* " in *' --server=fastcgi '*) PHPT_FASTCGI=$("$here/php-cgi.sh") ;; esac
export PHP PHP_SOURCE PHPT_FASTCGI SVC
exec "$PHP" -n -d memory_limit=-1 "$here/phpt/run.php" "$@"
