# Every target sets up what it needs: a fresh machine needs Python >= 3.11, make and, for the
# fast native core, a C++ compiler.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SETUP := $(VENV)/.setup
NATIVE := pyproject.toml CMakeLists.txt $(wildcard src/native/*.*) $(wildcard src/native/isa/*)

.PHONY: demo test test-slow test-numpy test-quapy torch lint bench native wheel release-check lock audit clean

# The environment is remade when the build recipe or the native sources change: with what the
# demonstration needs, or with everything for development.
$(INSTALLED): $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[cli]"
	touch $(INSTALLED)

$(SETUP): $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(INSTALLED) $(SETUP)

demo: $(INSTALLED)
	$(BIN)/kdey demo

test: $(SETUP) lint
	$(BIN)/python -m pytest --numprocesses 2
	$(MAKE) test-numpy

# The NumPy path must give the same answers as the native core.
test-numpy: $(SETUP)
	KDEY_NATIVE=0 $(BIN)/python -m pytest --numprocesses 2 tests/quantifiers tests/rows

# The torch path is tested where pip has a CPU build of torch among its local wheels (the one on the
# index brings gigabytes of CUDA), the Triton kernel where Triton is at hand. Else those tests skip.
torch: $(SETUP)
	$(BIN)/python -m pip install --quiet filelock fsspec jinja2 networkx "setuptools>=77" sympy
	$(BIN)/python -m pip install --quiet --no-index torch
	$(BIN)/python -m pip install --quiet triton

# Generated problems by the million, and inputs of quantifiers (docs/hardening.md, ten minutes); a
# stopped run goes on from its totals in build/. Those of the runs told of are in fuzz/results.
SEED ?= 0
.PHONY: campaign
campaign: $(SETUP)
	$(BIN)/python -m fuzz.campaigns solvers --problems 1000000 --seed $(SEED) --out build/campaign-solvers-$(SEED).json
	$(BIN)/python -m fuzz.campaigns estimators --problems 110000 --seed $(SEED) --out build/campaign-estimators-$(SEED).json

test-slow: $(SETUP)
	$(BIN)/python -m pytest -m slow

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Ratios against peers, all in one run on this machine (see benchmarks/README.md).
bench: $(SETUP)
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python benchmarks/run.py

# The adapters against QuaPy itself, in an environment of their own: it pulls in a lot.
test-quapy:
	$(PYTHON) -m venv $(VENV)-quapy
	$(VENV)-quapy/bin/python -m pip install --quiet --editable ".[test,bench]"
	$(VENV)-quapy/bin/python -m pytest tests/interop

# sdist and wheel in dist/; then the same, tried in an empty environment without a compiler.
wheel: $(SETUP)
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	$(BIN)/python -m build --outdir dist

release-check: $(SETUP)
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	$(BIN)/python scripts/release_check.py

# The versions that .ci/run installs; and what is known against them (needs a network).
lock: $(SETUP)
	$(BIN)/python scripts/lock.py

audit: $(SETUP)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip_audit --no-deps --requirement .ci/constraints.txt

# Rebuild the native core in place, for work on src/native with an environment of your own.
native:
	cmake -S . -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=Release
	cmake --build build/dev
	cp build/dev/_kdey.bin src/kdey/_kdey.bin

clean:
	rm -rf build dist $(VENV) $(VENV)-quapy src/kdey/_kdey.bin
