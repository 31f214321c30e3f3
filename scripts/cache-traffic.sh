#!/usr/bin/env bash
# Sends random traffic to servers of the binary SVC with a response cache for SECONDS, and checks the responses against a
# model. It is built from scripts/cache-traffic.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=go-program.sh
. "$(dirname "$0")/go-program.sh"
folder=$(go_program cache-traffic . 1)
exec "$folder/cache-traffic" "$SVC" "${1:?usage: cache-traffic.sh SECONDS}"
