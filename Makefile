# Builds, runs and checks svc. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A toolchain that was just installed is not on PATH yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

cargo_output := $(or $(CARGO_TARGET_DIR),target)
svc := $(cargo_output)/release/svc
musl := $(shell uname -m)-unknown-linux-musl

# Finds a PHP that svc can embed, and builds one first if there is none.
with_php := SVC_PHP_CONFIG=$$(scripts/php-zts.sh); export SVC_PHP_CONFIG

# Packages also contain APCu, which is not part of PHP's sources.
with_apcu := [ -e "$$("$$SVC_PHP_CONFIG" --extension-dir)/apcu.so" ] || scripts/php-extensions.sh apcu >/dev/null || exit 1

SECONDS ?= 60
TASKS ?= 100000
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: help toolchain check test-core test-classic msrv packages build build-lean static static-test install uninstall deb deb-test deb-lean deb-lean-test image image-test image-lean image-lean-test run smoke test-packages test-plan test chaos cache-traffic tasks simulate sanitize versions conformance loom jaeger lint advisories bench peers fuzz-smoke docs pictures stubs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The first step of every build, which lists missing tools: these two scripts also run on systems without bash.
toolchain packages: SHELL := /bin/sh
toolchain packages: .SHELLFLAGS := -euc
toolchain:
	@scripts/toolchain.sh

# Says before the minutes of a build of PHP that there is a way without.
packages: toolchain
	@for_php=$$(scripts/php-zts.sh --packages); \
	if [ -n "$$for_php" ]; then printf 'svc: %s\n' 'there is no thread-safe PHP on this machine, and building one takes about five minutes' \
	'with php-fpm or php-cgi, make build-lean takes a minute and a half instead: EXECUTOR=fastcgi (docs/fastcgi.md)' >&2; fi; \
	scripts/system-packages.sh build-essential libclang-dev $$for_php

# What Rust compiles without PHP is compiled while PHP is built: one waits for a single file where the other need not. The
# crate that needs PHP fails, and the rest goes on.
build: packages ## build the server; install missing packages and PHP
	@trap 'jobs -p | xargs -r kill' EXIT; if [ -n "$$(scripts/php-zts.sh --packages)" ]; then \
	SVC_PHP_CONFIG=none cargo build --release --bin svc --keep-going >/dev/null 2>&1 & fi; \
	$(with_php); wait; cargo build --release --bin svc

# Needs neither PHP nor libclang. The binary is target/lean/svc.
build-lean: ## build the server without PHP in little time: it runs scripts through FastCGI (docs/fastcgi.md)
	@scripts/toolchain.sh
	@scripts/system-packages.sh build-essential
	cargo build --profile lean --no-default-features --bin svc

# The cryptography library is written in C and assembly, which musl-gcc compiles.
static: ## build the server without PHP as one static file for any Linux
	@scripts/toolchain.sh
	@scripts/system-packages.sh build-essential musl-tools
	@rustup target add $(musl) >/dev/null
	CC_$(subst -,_,$(musl))=musl-gcc cargo build --release --no-default-features --bin svc --target $(musl)

static-test: static ## run the static file in a root that has nothing but busybox and the file (root)
	@scripts/system-packages.sh busybox-static curl
	@scripts/static-test.sh $(cargo_output)/$(musl)/release/svc

# `sudo make install` needs no toolchain: the user has built the server.
install: $(if $(SUDO_USER),,build) ## install below PREFIX (/usr/local), with DESTDIR in front of it
	@SVC='$(svc)' PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh

uninstall: ## remove what make install has put below PREFIX; a php.ini that was edited stays
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh --remove

deb: build ## build a Debian package for this release in target/deb
	@$(with_php); $(with_apcu); SVC=$(svc) OUT=$(cargo_output)/deb scripts/deb.sh

deb-test: build ## install the package in a fresh root and try it (root; takes some minutes)
	@$(with_php); $(with_apcu); deb=$$(SVC=$(svc) OUT=$(cargo_output)/deb scripts/deb.sh); scripts/deb-test.sh "$$deb"

deb-lean: build-lean ## build the Debian package of the server without PHP, for php-cgi and php-fpm
	@SVC=$(cargo_output)/lean/svc OUT=$(cargo_output)/deb scripts/deb.sh

deb-lean-test: build-lean ## install that package in a fresh root and try it (root; takes some minutes)
	@deb=$$(SVC=$(cargo_output)/lean/svc OUT=$(cargo_output)/deb scripts/deb.sh); scripts/deb-test.sh "$$deb"

image: build ## build the container image localhost/svc from the package
	@$(with_php); $(with_apcu); deb=$$(SVC=$(svc) OUT=$(cargo_output)/deb scripts/deb.sh); scripts/image.sh "$$deb"

image-test: build ## carry out the Containerfile in a fresh root and try it (root; takes some minutes)
	@$(with_php); $(with_apcu); deb=$$(SVC=$(svc) OUT=$(cargo_output)/deb scripts/deb.sh); scripts/image.sh --replay "$$deb"

image-lean: build-lean ## build the container image localhost/svc-fastcgi, with php-cgi
	@deb=$$(SVC=$(cargo_output)/lean/svc OUT=$(cargo_output)/deb scripts/deb.sh); IMAGE=$${IMAGE:-localhost/svc-fastcgi} scripts/image.sh "$$deb"

image-lean-test: build-lean ## carry out its Containerfile in a fresh root and try it (root; takes some minutes)
	@deb=$$(SVC=$(cargo_output)/lean/svc OUT=$(cargo_output)/deb scripts/deb.sh); scripts/image.sh --replay "$$deb"

run: build ## serve the welcome page on 127.0.0.1:8080, with the operations port on 127.0.0.1:9090
	@export LISTEN_ADDR=$${LISTEN_ADDR:-127.0.0.1:8080} INTERNAL_ADDR=$${INTERNAL_ADDR:-127.0.0.1:9090}; \
	printf '\n%s\n' "  Welcome page     http://$$LISTEN_ADDR/" "  Operations page  http://$$INTERNAL_ADDR/" \
	"  Documentation    file://$(CURDIR)/docs/README.md" "  Your application: $(svc) dev path/to/project. Ctrl-C stops the server."; \
	exec $(svc) serve welcome

smoke: build ## check that the release build serves a page in each mode
	@scripts/system-packages.sh curl
	@SVC=$(svc) scripts/smoke.sh

# For each save: the checks that a change of Rust code breaks most often. No PHP, no packages; under a minute once the dependencies are
# compiled. The tests come before the lints, so that they pass in a fresh clone after two thirds of its time.
check: toolchain ## check formatting, unit tests and lints of the code that needs no PHP
	@cargo fmt --all --check
	@cargo test --quiet --package svc-core --package svc-serve --lib
	@cargo clippy --quiet --no-default-features --package svc --package svc-core --package svc-serve --package svc-testing --lib --bins --tests -- -D warnings

test-core: toolchain ## run all tests that need neither PHP nor packages
	@cargo test --package svc-core --package svc-serve --package svc-testing
	@cargo test --no-default-features --lib --bins

# The packages of the tests. php-cgi and php-fpm run PHP on the other side of FastCGI. brotli and zstd check compressed
# bodies, nghttp and h2load are HTTP/2 clients, wget resumes downloads, openssl creates certificates, the completions are
# read by their shells and the manual page by groff, valgrind watches a plugin, and PHP's own tests inspect processes. The
# shim's knowledge of PHP's extensions is compared with the headers of the libraries that they are built with. Tests start
# the servers of PHP's clients as separate processes: MariaDB, PostgreSQL, Redis and memcached. Applications that run
# through FastCGI need extensions of the distribution's PHP that Debian packages separately. Spans are exported to a
# Collector built with Go. The manifests for Kubernetes are read with Python, the unit with systemd's own tool. Chromium
# opens the page of the operations port, and axe-core checks it.
test_packages := brotli chromium curl fish groff libgmp-dev libonig-dev libpq-dev libsnmp-dev mariadb-client-core \
	mariadb-server-core memcached nghttp2-client openssl php-cgi php-fpm php-mbstring php-mysql php-xml postgresql procps \
	python3-yaml redis-server systemd valgrind wget zsh zstd

test-packages: packages
	@scripts/system-packages.sh $(test_packages)
	@$(with_php); scripts/php-extensions.sh >/dev/null
	@scripts/axe.sh >/dev/null
	@scripts/clients.sh >/dev/null
	@scripts/otelcol.sh >/dev/null
	@scripts/kubestrict.sh >/dev/null

# Lists the steps first, because there are many.
test-plan: toolchain
	@scripts/test-plan.sh $(test_packages)

# Passes the output of tests on, and fails unless a test has passed in each of these areas.
ran = awk -v areas='$(1)' '{ print } BEGIN { count = split(areas, area, " ") } \
	/^test .* ok$$/ { for (i = 1; i <= count; i++) if (index($$2, area[i]) == 1) has[area[i]] } \
	END { for (i = 1; i <= count; i++) if (!(area[i] in has)) { print "make: test: nothing has passed in " area[i]; exit 1 } }'

# The areas whose tests depend on the features of the interpreter, and those that do not need it.
classic_areas := cli:: dev:: php:: plugins:: settings::
lean_areas := repository::architecture:: cli::config:: cli::features::

# Always of the whole workspace: the crates that do not have the features are then compiled once for all of them. Tests that do
# not depend on how PHP runs are run with both executors.
test: test-plan test-packages ## run all tests, with and without PHP, and classic mode alone
	@export PATH="$$PATH:$$(scripts/prometheus.sh)"; $(with_php); cargo test --workspace; scripts/test-fastcgi.sh
	@$(MAKE) --no-print-directory test-classic
	@cargo test --workspace --no-default-features --lib --bins
	@cargo test --workspace --no-default-features --test server -- $(lean_areas) | $(call ran,$(lean_areas))

# The settings of the features are refused, their functions are absent, and their folders of c/ are not compiled.
classic := cargo test --workspace --no-default-features --features php
test-classic: packages ## run the tests of the interpreter in a build without worker mode, tasks and traces
	@$(with_php); $(classic) --test interpreter --test interrupter --test restart
	@$(with_php); $(classic) --test server -- $(classic_areas) | $(call ran,$(classic_areas))

chaos: packages ## run random programs against a model for SECONDS (60); SEED or FILE runs and shrinks a single round
	@$(with_php); CHAOS_SECONDS=$(SECONDS) CHAOS_SEED=$(SEED) CHAOS_FILE=$(FILE) \
	cargo test --test chaos programs_ -- --ignored --nocapture

mixtures: test-packages ## run random requests with databases, locks and stores for SECONDS (60), with hooks and without; SEED is the first
	@$(with_php); SVC_MIXTURES=1000000 SVC_MIXTURE_SECONDS=$(or $(SECONDS),60) SVC_MIXTURE_SEED=$(or $(SEED),1) \
	cargo test --test server -- hooks::mixtures:: --nocapture

cache-traffic: build ## send random traffic to the response cache for SECONDS (60), and check it against a model
	@SVC=$(svc) scripts/cache-traffic.sh $(SECONDS)

tasks: packages ## run TASKS (100000) background tasks of all shapes; scripts/sanitize.sh does it with other builds of PHP
	@$(with_php); TASKS=$(TASKS) cargo test --test server -- async::shapes:: --nocapture

simulate: packages ## run random connections against a model for SECONDS (60); SEED replays a single one
	@CONNECTION_SECONDS=$(SECONDS) CONNECTION_SEED=$(SEED) \
	cargo test -p svc-core --test simulation -- connection:: --nocapture

conformance: build ## run PHP's own tests against the server; docs/conformance.md lists known differences
	@SVC=$(svc) scripts/phpt.sh

# The other targets use the first PHP that fits; these series are built and tested separately.
versions: test-packages ## run the tests with the other supported PHP series (nightly; takes an hour)
	@export PATH="$$PATH:$$(scripts/prometheus.sh)"; for series in $(wordlist 2,9,$(shell cat scripts/php-series)); do \
	SVC_PHP_CONFIG=$$(scripts/php-zts.sh --version $$series); export SVC_PHP_CONFIG; \
	CARGO_TARGET_DIR=$(cargo_output)/php-$$series cargo test --workspace --no-fail-fast; done

sanitize: packages ## run the tests with a debug build and a sanitizer build of PHP (nightly; takes an hour)
	@scripts/sanitize.sh

loom: packages ## check concurrent code against all interleavings (loom)
	@RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$(cargo_output)/loom cargo test -p svc-core --test loom

jaeger: test-packages ## export traces to a Jaeger and read them back; builds it once, which takes some minutes
	@$(with_php); scripts/jaeger.sh >/dev/null; cargo test --test server -- --ignored --nocapture trace::jaeger::

lint: packages ## check formatting, lints, documentation, dependencies and scripts
	@cargo fmt --all --check
	@$(with_php); cargo clippy --workspace --all-targets -- -D warnings
	@$(with_php); cargo clippy --workspace --all-targets --no-default-features --features php -- -D warnings
	@cargo clippy --workspace --all-targets --no-default-features -- -D warnings
	@$(with_php); RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
	@cargo_deny=$$(scripts/cargo-deny.sh); "$$cargo_deny" --locked check bans licenses sources
	@if command -v shellcheck >/dev/null; then shellcheck --severity=warning scripts/*.sh scripts/peers/*.sh .ci/run; \
	else echo "lint: shellcheck is not installed; scripts were not checked"; fi

# Apart from lint, because the database of advisories is a Git repository on github.com.
advisories: packages ## check the dependencies for known vulnerabilities; needs access to github.com
	@cargo_deny=$$(scripts/cargo-deny.sh); "$$cargo_deny" --locked check advisories

msrv: packages ## build everything with the oldest Rust that Cargo.toml declares; rustup fetches it
	@oldest=$$(sed -n 's/^rust-version = "\(.*\)"$$/\1/p' Cargo.toml); \
	rustup toolchain install --no-self-update --profile minimal "$$oldest"; \
	$(with_php); CARGO_TARGET_DIR=$(cargo_output)/msrv cargo "+$$oldest" check --locked --workspace --all-targets

bench: packages ## run the microbenchmarks
	@$(with_php); cargo bench --package svc --package svc-benches --benches

peers: build ## benchmark svc against the other servers on this machine
	@scripts/peers.sh

fuzz-smoke: packages ## fuzz each parser for a minute; needs cargo-fuzz and a nightly toolchain
	@command -v cargo-fuzz >/dev/null || { echo "make: cargo-fuzz is missing; cargo install cargo-fuzz" >&2; exit 1; }
	@for target in $$(cargo +nightly fuzz list); do cargo +nightly fuzz run "$$target" -- -max_total_time=60; done

docs: packages ## regenerate docs/settings.md and the tables of docs/metrics.md
	@cargo run --quiet --no-default-features -- help settings --markdown > docs/settings.md.new
	@mv docs/settings.md.new docs/settings.md
	@cargo run --quiet --no-default-features --example metrics_page < docs/metrics.md > docs/metrics.md.new
	@mv docs/metrics.md.new docs/metrics.md

pictures: test-packages ## regenerate the pictures in docs/images
	@mkdir -p docs/images; $(with_php); cargo test --quiet --test server -- --ignored ops::page_scenes::pictures_of_the_page

stubs: packages ## regenerate stubs/svc.php, which editors and static analysis read
	@$(with_php); SVC_WRITE_STUBS=1 cargo test --quiet --test server -- stubs::the_file_has_the_functions_of_the_server
