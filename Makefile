# `make run` and `make test` are the two commands of this project; the others are conveniences.

ARGS ?=
# The settings file that ARGS name, for commands that take no other flag of the server.
CONFIG = $(shell printf '%s' '$(ARGS)' | grep --only-matching --extended-regexp -e '--config[= ][^ ]+')

DATA ?=
DOCUMENTATION = README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md docs

# Binaries are compiled for this machine's processor (scripts/cargo-fast). NATIVE=0 compiles for any with AVX2, as `make
# test` does; use it for binaries that run elsewhere.
NATIVE ?= 1
CARGO = $(if $(filter-out 0,$(NATIVE)),scripts/cargo-fast,cargo)
WELLSPRING = $(or $(CARGO_TARGET_DIR),target)/release/wellspring

.PHONY: run fake test soak openapi settings-reference eval eval-answers eval-dialogues bench bench-embed bench-ingest bench-models bench-search setup setup-tests

define QUESTIONS

When the server says where it listens, ask it in another terminal:
  $(ASK) "How long does a prompt go on when its client is gone?"
  $(ASK) "How can a request be retried safely?"
  $(ASK) "How do I cancel a prompt?"
or over HTTP, as docs/quickstart.md shows. Ctrl-C stops it.

endef
ASK = $(WELLSPRING) ask$(if $(CONFIG), $(CONFIG))
export QUESTIONS

## Builds, fetches the models that the settings use, ingests this project's documentation (unchanged pages are skipped),
## prints questions to ask, and starts the server.
## `make run ARGS="--bind 127.0.0.1:9090"` passes flags.
run: setup
	$(CARGO) run --release --package cli -- models pull --quiet $(CONFIG)
	-$(CARGO) run --quiet --release --package cli -- ingest $(CONFIG) $(DOCUMENTATION)
	@printf '%s\n' "$$QUESTIONS"
	$(CARGO) run --quiet --release --package cli -- serve $(ARGS)

## A fake model server without a model; docs/quickstart.md shows how to use it.
fake: setup
	$(CARGO) run --release --package testing --bin fake-model -- $(ARGS)

## Format, lints, links of the documentation, and all tests that need no quiet machine.
test: setup-tests
	cargo fmt --check
	scripts/check-docs
	cargo clippy --workspace --all-targets --locked -- -D warnings
	scripts/test

## All tests in their long versions, those that measure under load included: on free cores.
soak: setup-tests
	PROPTEST_CASES=20000 WELLSPRING_SOAK=1 NEXTEST_PROFILE=soak scripts/test

## Rewrites contracts/openapi.json after calls were changed.
openapi: setup-tests
	WELLSPRING_WRITE_OPENAPI=1 cargo test --workspace --locked --quiet --test it the_description_that_is_served

## Rewrites docs/settings.md after settings were changed.
settings-reference: setup
	WELLSPRING_WRITE_SETTINGS_REFERENCE=1 cargo test --package cli --locked --quiet --bin wellspring \
		the_settings_reference_is_current

## Retrieval quality on every collection (in BEIR form) of a folder: `make eval DATA=DIR`. The figures are in
## docs/retrieval.md.
eval: setup
	@test -n "$(DATA)" || { echo 'make eval: name the folder of the collections, as in DATA=../collections' >&2; exit 2; }
	$(CARGO) run --quiet --release --package cli -- models pull --quiet $(CONFIG)
	@for corpus in $(DATA)/*/corpus.jsonl; do \
		$(CARGO) run --quiet --release --package cli -- eval --parts $(ARGS) "$${corpus%/*}" || exit 1; \
	done

## Retrieval quality for follow-up questions, as asked and as rewritten, in conversations about this project's own
## documentation. The figures are in docs/retrieval.md.
eval-dialogues: setup
	$(CARGO) build --quiet --release --package cli --package bench
	$(WELLSPRING) models pull --quiet granite-embedding-30m-english
	@$(dir $(WELLSPRING))eval-dialogues $(ARGS) fixtures/dialogues

## The quality of the answers of each model, and of quotes, to questions about this project's own documentation and, with
## DATA=DIR, to the collections of a folder that have answers.jsonl (their odd half). The figures are in docs/models.md. It
## takes hours; MOST=50 asks fewer questions.
MODELS = quotes smollm2-135m-instruct qwen2.5-coder-0.5b-instruct qwen2.5-coder-1.5b-instruct
eval-answers: setup
	$(CARGO) build --quiet --release --package cli --package bench
	$(WELLSPRING) models pull --quiet granite-embedding-30m-english $(filter-out quotes,$(MODELS))
	@scripts/eval-answers $(dir $(WELLSPRING))eval-answers "$(DATA)" "$(MOST)" $(MODELS)

## What it costs and how fast it is; the figures are in docs/performance.md.
bench: setup
	$(CARGO) build --quiet --release --package cli --package testing --package bench
	$(CARGO) run --quiet --release --package bench -- $(ARGS)

## The embedder side by side with ONNX Runtime; needs Python, and fetches ONNX Runtime into the cache directory.
bench-embed: setup
	$(CARGO) run --quiet --release --package cli -- models pull --quiet granite-embedding-30m-english
	$(CARGO) build --quiet --release --package bench --bin embed
	python="$$(bench/embed/setup)" && $(CARGO) run --quiet --release --package bench --bin embed -- --python "$$python" $(ARGS)

## How fast files are taken in, beside the embedder alone.
bench-ingest: setup
	$(CARGO) run --quiet --release --package cli -- models pull --quiet granite-embedding-30m-english
	$(CARGO) run --quiet --release --package bench --bin ingest -- $(ARGS)

## Chat models beside a bare loop over llama.cpp: speed of writing, and time to the first token through the server. Pulled
## models only; `make bench-models ARGS="--model NAME"` takes one of them.
bench-models: setup
	$(CARGO) build --quiet --release --package cli --package bench
	$(CARGO) run --quiet --release --package bench --bin models -- $(ARGS)

## How long a search takes with 100,000 chunks, and in an index of a million; the figures are in docs/retrieval.md.
bench-search: setup
	$(CARGO) run --quiet --release --package cli -- models pull --quiet granite-embedding-30m-english
	$(CARGO) build --quiet --release --package bench --bin search
	$(CARGO) run --quiet --release --package bench --bin search -- $(ARGS)
	$(CARGO) run --quiet --release --package bench --bin search -- --chunks 1000000 --questions 20 --index-only

## Installs the Debian packages that building, and testing, need where they are missing.
setup:
	@scripts/setup
setup-tests:
	@scripts/setup tests
