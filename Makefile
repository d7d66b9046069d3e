PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
MACHINE ?= hgx-h100-8

.PHONY: demo test lint types contracts check bench chaos soak protos system-packages clean

$(BIN)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(BIN)/.installed ## a fake GPU node and a fake kubelet, shown from registration to recovery
	$(BIN)/python -m tests.demo --machine $(MACHINE) $(DEMO_ARGS)

test: check ## everything CI runs
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: lint types contracts ## everything that needs no process

lint: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(BIN)/.installed
	$(BIN)/mypy

contracts: $(BIN)/.installed
	$(BIN)/lint-imports

bench: $(BIN)/.installed ## figures as ratios against a constant-answer server in the same run
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

chaos: $(BIN)/.installed ## a seeded random walk over faults, with invariants checked throughout
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

soak: $(BIN)/.installed
	$(BIN)/python -m tests.soak $(SOAK_ARGS)

protos: $(BIN)/.installed
	PYTHON=$(BIN)/python protos/generate.sh

system-packages: ## Debian packages that some tests use (browser, Prometheus)
	./tests/system-packages.sh

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
