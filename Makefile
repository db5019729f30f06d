# The commands. Each also works without make: the recipes are what they run.

.PHONY: demo test check build bench validate deny setup

.NOTPARALLEL:

TARGET := $(or $(CARGO_TARGET_DIR),target)

demo: setup build ## the main job, in network namespaces of its own, about a minute
	$(TARGET)/release/tidegate demo

test: setup check build ## everything; under 30 minutes on 2 cores with everything cold
	TIDEGATE_BIN=$(abspath $(TARGET))/release/tidegate cargo test --workspace --locked

check: ## what needs no test to run: form, lints, documentation, licences
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked --quiet
	python3 .ci/deny.py
	@if command -v clang-14 >/dev/null; then $(MAKE) --no-print-directory -C bpf check; \
	else echo "skipped: whether bpf/*.o are what their sources give (apt-get install clang-14 llvm-14 libbpf-dev)"; fi

build: ## target/release/tidegate
	cargo build --release --locked --package tidegate

bench: setup build ## what a packet costs: instructions, memory, time, evenness; also in target/bench.md and bench.json
	TIDEGATE_BIN=$(abspath $(TARGET))/release/tidegate cargo run --release --locked --package tidegate-bench -- all --out $(TARGET)

validate: ## beside ns-2, ns-3 and formulas, which it installs from Debian's packages; a quarter of an hour
	@validate/setup
	validate/run.py

deny: ## the whole of deny.toml, advisories too; builds cargo-deny the first time, some minutes
	command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny check

setup: ## installs what the other commands need and is missing
	@.ci/setup
