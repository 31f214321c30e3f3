#!/usr/bin/env bash
# Prints a folder with `jaeger`, a Jaeger that keeps traces in memory: `make jaeger` exports spans to it and reads them back.
#
# It is built with the versions of scripts/jaeger, without its user interface. That takes some minutes, so no other test
# uses it. JAEGER_JOBS=1 compiles one package at a time, for machines with little memory.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=go-program.sh
. "$(dirname "$0")/go-program.sh"
go_program jaeger github.com/jaegertracing/jaeger/cmd/all-in-one "${JAEGER_JOBS:-2}"
