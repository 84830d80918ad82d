# Every target sets up its environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
LOWEST ?= $(VENV)/lowest
OLDEST ?= python3.10

.PHONY: demo test test-slow test-lowest dist-test lint bench lce openvino kernels report playground docs clean

demo: $(READY)                 ## train a binary network on embedded data, three seeds
	$(BIN)/zerocross demo

test: $(READY)                 ## run a sample of all tests; under 12 minutes on 2 cores
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(READY)            ## run the slow tests: killed processes, all combinations, large sweeps; under 70 minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

test-lowest: $(LOWEST)/.ready  ## run the tests on the oldest versions supported; torch with CUDA, 6 GB: install it once
	$(LOWEST)/bin/python -m pytest -n 2 --dist worksteal

dist-test: $(READY)            ## build sdist and wheel in dist/, and try the wheel in new environments
	PYTHON=$(BIN)/python .ci/smoke dist

lint: $(READY)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright --pythonpath $(BIN)/python
	$(MAKE) --no-print-directory docs

docs: $(READY)                 ## build the documentation site in site/; offline, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY)                ## measure speed against other implementations
	$(BIN)/zerocross bench optimizer
	$(BIN)/zerocross bench train
	$(BIN)/zerocross bench inference

lce:                           ## set up Larq Compute Engine for zerocross bench inference --lce
	PYTHON=$(PYTHON) .ci/lce $(VENV)/lce

openvino:                      ## set up OpenVINO for zerocross bench inference --openvino
	PYTHON=$(PYTHON) .ci/openvino $(VENV)/openvino

kernels: $(READY)              ## build object code of the packed runtime after a change in runtime/kernels (Linux, x86-64)
	$(BIN)/python -m zerocross.runtime.prebuild

report: $(READY)               ## write all results to docs/report.html
	$(BIN)/zerocross report

# The networks of the page: for drawn digits, photographs and spoken digits.
NETWORKS ?= $(patsubst %,src/zerocross/zoo/files/%.zcb,mnist cifar10 audiomnist)

playground: $(READY)           ## write docs/playground.html, which runs these networks; needs clang and lld (.ci/wasm)
	$(BIN)/zerocross playground $(NETWORKS) -o docs/playground.html --force

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	$(OLDEST) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) runs build dist site .pytest_cache .ruff_cache .hypothesis
