# The two commands of this project are `make run` and `make test`. Everything else is a convenience.

ARGS ?=

.PHONY: run fake test soak bench setup setup-tests

## Builds what is missing, and starts the server. `make run ARGS="--bind 127.0.0.1:9090"` passes flags.
run: setup
	cargo run --release --package cli -- serve $(ARGS)

## A model server with no model in it, to try things with; docs/quickstart.md shows how.
fake: setup
	cargo run --release --package testing --bin fake-model -- $(ARGS)

## Everything that must hold: format, lints, all tests.
test: setup-tests
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	scripts/test

## The long versions of the tests.
soak: setup-tests
	PROPTEST_CASES=20000 WELLSPRING_SOAK=1 scripts/test

## What it costs and how fast it is; the figures are in docs/performance.md.
bench: setup
	cargo build --quiet --release --package cli --package testing --package bench
	cargo run --quiet --release --package bench -- $(ARGS)

## Installs the Debian packages that building, and testing, need where they are missing.
setup:
	@scripts/setup
setup-tests:
	@scripts/setup tests
