# The commands. Each also works without make: the recipes are what they run.

.PHONY: demo figure test check build program python bench validate repro deny docs setup

.NOTPARALLEL:

TARGET := $(or $(CARGO_TARGET_DIR),target)
# Of Cargo.toml: `dist` is what operators get, `release` is built sooner.
PROFILE := dist
PROGRAM = $(TARGET)/$(PROFILE)/tidegate
PYTHON := python experiments validate .ci
PIP := .venv/bin/pip --disable-pip-version-check --quiet install --requirement

# The demo is to begin soon.
demo: PROFILE := release
demo: setup program ## the main job, in network namespaces of its own, about two minutes
	$(PROGRAM) demo

# Four minutes. The README and docs/understand/postack-measured.md show it.
figure: PROFILE := release
figure: setup program ## repeats the runs of the README's picture, and draws it
	$(PROGRAM) demo --json --seconds 60 --phase unmanaged --phase inbound-fifo --phase inbound-fq-codel --phase inbound-postack > $(TARGET)/demo.json
	mv $(TARGET)/demo.json docs/demo.json
	.ci/demo_figure.py docs/demo.json docs/demo.svg

test: setup ## everything; under 30 minutes on 2 cores with everything cold
	cargo fmt --all --check
	.ci/side_by_side.py

check: ## what needs no test to run: form, lints, documentation, licences
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked --quiet
	python3 .ci/deny.py
	python3 .ci/prose.py
	$(MAKE) --no-print-directory .venv/test
	.venv/bin/ruff format --check $(PYTHON)
	.venv/bin/ruff check $(PYTHON)
	.venv/bin/mypy
	@if command -v clang-14 >/dev/null; then $(MAKE) --no-print-directory -C bpf check; \
	else echo "skipped: whether bpf/*.o are what their sources give (apt-get install clang-14 llvm-14 libbpf-dev)"; fi

build: program python ## target/dist/tidegate, and the Python package in .venv
	cargo build --release --locked --package tidegate-bench

program:
	cargo build --profile $(PROFILE) --locked --package tidegate

python: .venv/build
	.venv/bin/maturin develop --profile $(PROFILE) --locked --quiet

# A stamp for each list of packages that is installed.
.venv/build: python/requirements.txt
	python3 -m venv .venv
	$(PIP) $<
	@touch $@

.venv/test: python/requirements-test.txt .venv/build
	$(PIP) $<
	@touch $@

repro: setup build ## every experiment, every claim; writes docs/reproduce and ends with the verdicts
	TIDEGATE_BIN=$(abspath $(PROGRAM)) .venv/bin/tidegate-repro report

bench: setup build ## what a packet costs: instructions, memory, time, evenness; also in target/bench.md and bench.json
	TIDEGATE_BIN=$(abspath $(PROGRAM)) cargo run --release --locked --package tidegate-bench -- all --out $(TARGET)

validate: program ## beside ns-2, ns-3, formulas and this kernel; installs the simulators from Debian's packages; half an hour
	@validate/setup
	cargo build --release --locked --package tidegate-e2e --bins
	TIDEGATE_BIN=$(abspath $(PROGRAM)) python3 -m validate --page docs/understand/validation.md

deny: ## the whole of deny.toml, advisories too; builds cargo-deny the first time, some minutes
	command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny check

docs: ## the manual as a book in target/book; builds mdbook the first time, some minutes
	command -v mdbook >/dev/null || cargo install --locked mdbook
	mdbook build docs

setup: ## installs what the other commands need and is missing
	@.ci/setup
