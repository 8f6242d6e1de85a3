# Every target sets up what it needs: a fresh machine needs Python >= 3.11, make and, for the
# fast native core, a C++ compiler.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SETUP := $(VENV)/.setup
DOCS := $(VENV)/.docs
NATIVE := pyproject.toml CMakeLists.txt $(wildcard src/native/*.*) $(wildcard src/native/isa/*)
CXX_FILES := $(wildcard src/native/*.[ch]* src/native/isa/*.[ch]* fuzz/native/*.[ch]pp tests/abi/*.[ch])

.PHONY: demo docs test smoke format test-slow test-numpy test-machines test-quapy test-sources test-oldest test-newest torch lint \
	coverage mutation fuzz sanitize soak bench reproduce numbers prose native wheel wheels wheels-twice test-wheels release-check lock audit \
	clean

# The environment is remade when the build recipe or the native sources change: with what the
# demonstration or the site needs, or with everything for development.
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

$(DOCS): $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[docs]" --group site
	touch $(DOCS)

demo: $(INSTALLED)
	$(BIN)/kdey demo

test: $(SETUP) lint
	$(BIN)/python -m pytest --numprocesses 2
	$(MAKE) test-numpy

# The NumPy path must give the same answers as the native core.
test-numpy: $(SETUP)
	KDEY_NATIVE=0 $(BIN)/python -m pytest --numprocesses 2 tests/quantifiers tests/rows

# The numerical core as on an old processor: neither OpenBLAS nor our kernels use AVX. No test may
# depend on an instruction set, nor on the digits at which a classifier's fit ends.
CORE := kernels rows matching quantifiers strangers intervals tuning

test-machines: $(SETUP)
	OPENBLAS_CORETYPE=Nehalem KDEY_ISA=baseline \
		$(BIN)/python -m pytest --numprocesses 2 $(addprefix tests/,$(CORE))

# The torch path is tested where pip has a CPU build of torch among its local wheels (the one on the
# index brings gigabytes of CUDA), the Triton kernel where Triton is at hand. Else those tests skip.
torch: $(SETUP)
	$(BIN)/python -m pip install --quiet filelock fsspec jinja2 networkx "setuptools>=77" sympy
	$(BIN)/python -m pip install --quiet --no-index torch
	$(BIN)/python -m pip install --quiet triton

# Generated problems by the million, and inputs of quantifiers (docs/lab/hardening.md, ten minutes); a
# stopped run goes on from its totals in build/. Those of the runs told of are in fuzz/results.
SEED ?= 0
.PHONY: campaign
campaign: $(SETUP)
	$(BIN)/python -m fuzz.campaigns solvers --problems 1000000 --seed $(SEED) --out build/campaign-solvers-$(SEED).json
	$(BIN)/python -m fuzz.campaigns estimators --problems 110000 --seed $(SEED) --out build/campaign-estimators-$(SEED).json
	$(BIN)/python -m fuzz.campaigns tables --problems 20000 --seed $(SEED) --out build/campaign-tables-$(SEED).json

test-slow: $(SETUP)
	$(BIN)/python -m pytest -m slow

# Lines of Python that the tests of `make test` run, and the others with their reasons. After `make
# torch` the GPU path counts too, as far as it runs on a CPU.
coverage: $(SETUP)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses 2
	KDEY_NATIVE=0 $(BIN)/coverage run -m pytest --numprocesses 2 tests/quantifiers tests/rows
	$(BIN)/coverage combine --quiet
	$(BIN)/python scripts/uncovered.py

# Change matchings and metrics in one place at a time; a test must fail.
mutation: $(SETUP)
	$(BIN)/python scripts/mutate.py

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)

format: $(SETUP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

# A first answer within a minute: the hooks of .pre-commit-config.yaml on the files that differ from
# BASE (they mend what they can), and the tests marked "smoke".
BASE ?= HEAD
smoke: $(SETUP)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pre-commit run --files \
		$$(git diff --name-only --diff-filter=d $(BASE)) $$(git ls-files --others --exclude-standard)
	$(BIN)/python -m pytest --numprocesses 2 -m smoke

# The documentation site, in build/docs: every example runs, and a warning or a dead link is an error.
docs: $(DOCS)
	rm -rf docs/api/generated docs/lab/generated  # a page of a name that is gone is an error
	$(BIN)/python -m sphinx -W --keep-going -n -q docs build/docs

# Ratios against peers, measured on this machine (half an hour), and docs/lab/benchmarks.md made of them.
bench: $(SETUP)
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python benchmarks/run.py

# The paper's experiments from the stored results: tables and figures of docs/lab/reproduction.md. The runs
# themselves take hours: `python -m experiments --help`.
reproduce: $(SETUP)
	$(BIN)/python -m experiments tables --document docs/lab/reproduction.md --quiet
	$(BIN)/python -m experiments figures --out docs/figures

# The measured numbers of all pages, rewritten from the stored results.
numbers: $(SETUP)
	PYTHONPATH=. $(BIN)/python scripts/measured.py

# Spelling and style of the pages and docstrings; exceptions stand in pyproject.toml and in the script.
prose: $(SETUP)
	$(BIN)/codespell README.md docs examples src
	$(BIN)/python scripts/prose.py

# The adapters against QuaPy itself, in an environment of their own: it pulls in a lot.
test-quapy:
	$(PYTHON) -m venv $(VENV)-quapy
	$(VENV)-quapy/bin/python -m pip install --quiet --editable ".[test,bench]"
	$(VENV)-quapy/bin/python -m pytest tests/interop

# The same groups from every source and engine. One of them needs a JVM, another PostgreSQL.
test-sources:
	$(PYTHON) -m venv $(VENV)-sources
	$(VENV)-sources/bin/python -m pip install --quiet --editable ".[test,sources]"
	$(VENV)-sources/bin/python -m pytest -m "slow or not slow" tests/tables/test_sources.py

# The whole fast suite with every requirement at its lower bound, on the oldest Python; and with
# what pip finds today, on the newest. Each in an environment of its own. Old packages make use of
# what newer ones below them deprecate, which is not ours to mend.
OLDEST ?= python3.11
NEWEST ?= python3.13
WORKERS ?= 2

test-oldest:
	$(OLDEST) -m venv --clear $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --upgrade pip packaging
	$(VENV)-oldest/bin/python scripts/versions.py > $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint $(VENV)-oldest/constraints.txt --editable ".[test]"
	$(VENV)-oldest/bin/python -m pytest -W ignore::DeprecationWarning -W ignore::FutureWarning \
		--numprocesses $(WORKERS)

test-newest:
	$(NEWEST) -m venv --clear $(VENV)-newest
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-newest/bin/python -m pip install --quiet --editable ".[test]"
	$(VENV)-newest/bin/python -m pytest --numprocesses $(WORKERS)

# An hour of random work in one process; fails where its memory grows (scripts/soak.py).
soak: $(SETUP)
	$(BIN)/python scripts/soak.py --minutes 60 --out soak.jsonl

# sdist and wheel in dist/; then the same, tried in an empty environment without a compiler.
wheel: $(SETUP)
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	$(BIN)/python -m build --outdir dist

# The wheels of all platforms, built here by cross compilation and looked into (docs/lab/platforms.md), and
# run: here, with musl, by qemu and by Wine, which are installed by apt. TARGETS names some of them.
WHEELS := $(VENV)-wheels
TARGETS ?=

$(WHEELS)/.setup: pyproject.toml
	$(PYTHON) -m venv $(WHEELS)
	$(WHEELS)/bin/python -m pip install --quiet --upgrade pip
	$(WHEELS)/bin/python -m pip install --quiet --group wheels
	touch $(WHEELS)/.setup

wheels: $(WHEELS)/.setup
	$(WHEELS)/bin/python scripts/build_wheels.py $(TARGETS)
	$(WHEELS)/bin/python scripts/check_wheels.py $(TARGETS)

# Every wheel is built twice, and the second must be the first, byte by byte.
wheels-twice: $(WHEELS)/.setup
	$(WHEELS)/bin/python scripts/build_wheels.py --twice $(TARGETS)

test-wheels: $(WHEELS)/.setup
	$(WHEELS)/bin/python scripts/try_wheels.py $(TARGETS)

release-check: $(SETUP)
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	$(BIN)/python scripts/release_check.py

# All of them, one after the other, recorded in results/release_run.json (hours; ONLY names some).
.PHONY: release-run
release-run: $(SETUP)
	$(BIN)/python scripts/release_run.py $(if $(ONLY),--only $(ONLY))

# The versions that .ci/run installs; and what is known against them. Without `--strict` packages
# that the index of advisories could not be asked about would pass.
lock: $(SETUP)
	$(BIN)/python scripts/lock.py

audit: $(SETUP)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip_audit --strict --no-deps --requirement .ci/constraints.txt

# The native core and the file readers fuzzed, a minute for each target (needs Clang, see
# fuzz/README.md); the core's tests under sanitizers.
fuzz: $(SETUP)
	$(BIN)/python -m pip install --quiet --editable ".[fuzz]"
	PYTHON=$(abspath $(BIN))/python PATH="$(abspath $(BIN)):$$PATH" scripts/fuzz.sh

sanitize: $(SETUP)
	PYTHON=$(abspath $(BIN))/python PATH="$(abspath $(BIN)):$$PATH" scripts/sanitize.sh

# Rebuild the native core in place, for work on src/native with an environment of your own.
native:
	cmake -S . -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=Release
	cmake --build build/dev
	cp build/dev/_kdey.bin src/kdey/_kdey.bin

clean:
	rm -rf docs/auto_examples docs/api/generated docs/lab/generated docs/api/backreferences
	rm -rf build dist $(VENV) $(VENV)-quapy $(VENV)-oldest $(VENV)-newest $(VENV)-wheels src/kdey/_kdey.bin
