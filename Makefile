# Each target does all its own set-up in a virtual environment in the checkout (.venv).
# PYTHON=python3.12 make test     another interpreter
# VENV=/tmp/venv make test        another place

PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .bench-venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := setup.cfg setup.py pyproject.toml constraints.txt _lm_eval_illusion_autoload.py

.PHONY: demo test lint check-types unit items coverage bench bench-full .bench-venv clean

demo: $(VENV)/.demo
	$(BIN)/lm-eval-illusion demo

test: lint check-types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-types: $(VENV)/.dev
	$(BIN)/mypy

# One thread a worker: the tests use tiny models, where threads only get in each other's way.
unit: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

items: $(VENV)/.dev
	$(BIN)/python scripts/items.py illusion_mini --items 20 > docs/items.md.tmp
	mv docs/items.md.tmp docs/items.md

coverage: $(VENV)/.dev
	$(BIN)/python benchmarks/coverage.py

# Speed against stock lm-eval and llmcompressor: `bench` in minutes, `bench-full` in hours, then docs/benchmarks.md.
# DATA=../shared/data HELDOUT=../shared/tools/heldout.py make bench-full   real questions and held-out text
BENCH := --llmcompressor $(BENCH_VENV)/bin/python $(if $(DATA),--data $(DATA)) $(if $(HELDOUT),--heldout $(HELDOUT))

bench: $(VENV)/.dev $(BENCH_VENV)/.llmcompressor
	$(BIN)/python benchmarks/all.py --short $(BENCH)

bench-full: $(VENV)/.dev $(BENCH_VENV)/.llmcompressor
	$(BIN)/python benchmarks/all.py $(BENCH) --results runs/bench-full --write docs/benchmarks.md

# llmcompressor pins an older transformers: an environment of its own.
.bench-venv: $(BENCH_VENV)/.llmcompressor

$(BENCH_VENV)/.llmcompressor:
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check llmcompressor==0.14.0.1
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch goes first and alone, so that its version is settled before anything that only asks for "torch".
$(VENV)/.demo: $(VENV)/bin/python $(SOURCES)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) -e '.[demo]'
	touch $@

$(VENV)/.dev: $(VENV)/bin/python $(SOURCES)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(BENCH_VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
