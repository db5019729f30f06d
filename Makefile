# The commands of the project. Each recipe also works if you type its lines into a shell.

.PHONY: demo figure test check build program python bench validate repro deny docs setup

.NOTPARALLEL:

TARGET := $(or $(CARGO_TARGET_DIR),target)
# A build profile of Cargo.toml: `dist` is for operators, `release` compiles faster.
PROFILE := dist
PROGRAM = $(TARGET)/$(PROFILE)/tidegate
PYTHON := python experiments validate .ci
PIP := .venv/bin/pip --disable-pip-version-check --quiet install --requirement

# The demo uses the profile that compiles faster.
demo: PROFILE := release
demo: setup program ## shows the gateway at work, in network namespaces of its own; about two minutes
	$(PROGRAM) demo

# Takes four minutes. The README and docs/understand/postack-measured.md show the picture.
figure: PROFILE := release
figure: setup program ## repeats the runs of the picture in the README, and draws it
	$(PROGRAM) demo --json --seconds 60 --phase unmanaged --phase inbound-fifo --phase inbound-fq-codel --phase inbound-postack > $(TARGET)/demo.json
	mv $(TARGET)/demo.json docs/demo.json
	.ci/demo_figure.py docs/demo.json docs/demo.svg

test: setup ## all tests and checks; less than 30 minutes on 2 cores, including the first build
	cargo fmt --all --check
	.ci/side_by_side.py

check: ## the checks without tests: formatting, lints, documentation, licences
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
	else echo "skipped: the comparison of bpf/*.o with their sources (apt-get install clang-14 llvm-14 libbpf-dev)"; fi

build: program python ## compiles target/dist/tidegate, and the Python package into .venv
	cargo build --release --locked --package tidegate-bench

program:
	cargo build --profile $(PROFILE) --locked --package tidegate

python: .venv/build
	.venv/bin/maturin develop --profile $(PROFILE) --locked --quiet

# An empty file records that a list of packages is installed.
.venv/build: python/requirements.txt
	python3 -m venv .venv
	$(PIP) $<
	@touch $@

.venv/test: python/requirements-test.txt .venv/build
	$(PIP) $<
	@touch $@

repro: setup build ## runs all experiments, writes docs/reproduce, and prints which claims hold
	TIDEGATE_BIN=$(abspath $(PROGRAM)) .venv/bin/tidegate-repro report

bench: setup build ## measures instructions, memory and time of a packet; also writes target/bench.md and bench.json
	TIDEGATE_BIN=$(abspath $(PROGRAM)) cargo run --release --locked --package tidegate-bench -- all --out $(TARGET)

validate: program ## compares with ns-2, ns-3, formulas and this kernel; installs the simulators from Debian; half an hour
	@validate/setup
	cargo build --release --locked --package tidegate-e2e --bins
	TIDEGATE_BIN=$(abspath $(PROGRAM)) python3 -m validate --page docs/understand/validation.md

deny: ## checks all of deny.toml, advisories included; the first time it builds cargo-deny, some minutes
	command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny check

docs: ## builds the manual as a book in target/book; the first time it builds mdbook, some minutes
	command -v mdbook >/dev/null || cargo install --locked mdbook
	mdbook build docs

setup: ## installs the missing programs and packages of the other commands
	@.ci/setup
