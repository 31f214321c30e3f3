#!/usr/bin/env bash
# Prints a folder with `otelcol`, a Collector of OpenTelemetry that the tests export spans to. It is built from
# scripts/otelcol; OTELCOL_JOBS=1 compiles one package at a time, for machines with little memory.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=go-program.sh
. "$(dirname "$0")/go-program.sh"
go_program otelcol . "${OTELCOL_JOBS:-2}"
