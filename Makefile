PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
export VITEDU_OFFLINE := 1
export OMP_NUM_THREADS ?= 1
export PYTHONHASHSEED := 0
# not a DATA that a shell happens to export
DOWNLOAD = $(if $(findstring command,$(origin DATA)),$(if $(filter download,$(DATA)),--download))
# tests start many processes: keep what they compile, whatever the environment says
unexport PYTHONDONTWRITEBYTECODE

help:  ## these lines
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/stamp  ## a virtual environment with pinned requirements and the package

$(VENV)/stamp: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e . && touch $@

book: setup  ## train a first ViT, build the site; DATA=download fetches MNIST
	$(BIN)/python tools/book.py $(DOWNLOAD)

check: setup  ## format, lint, fast tests: under a minute
	$(BIN)/ruff format --check . && $(BIN)/ruff check .
	$(BIN)/python -m pytest -q -m "not slow and not browser" -n 2 --dist worksteal

test: setup  ## everything that CI runs: lint, site, tests, browser, notebooks
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/python tools/site_build.py
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
	$(BIN)/python tools/nbval.py

sync: setup  ## package -> taught cells of texts and notebooks
	$(BIN)/python tools/notebooks.py sync

execute: setup  ## text -> executed notebook; CHAPTER=05 for one
	$(BIN)/python tools/notebooks.py execute $(CHAPTER)

text: setup  ## notebook -> text; CHAPTER=05 for one
	$(BIN)/python tools/notebooks.py text $(CHAPTER)

bench: setup  ## measure the claims of speed; writes vitedu/results/
	$(BIN)/python benchmarks/mnist_time_to_accuracy.py
	$(BIN)/python benchmarks/throughput.py

gpu: setup  ## all that needs a GPU, with VITEDU_DATA=FOLDER; writes vitedu/results/
	-$(BIN)/python benchmarks/gpu_day.py --pack runs/gpu-data
	env -u OMP_NUM_THREADS $(BIN)/python benchmarks/gpu_day.py --all --data runs/gpu-data

set-repository: setup  ## URL=https://github.com/<you>/<name> into every link
	$(BIN)/python tools/set_repository.py $(URL)

clean:  ## remove what can be made again, the environment too; runs/ stays
	rm -rf $(VENV) build _build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup book check test sync execute text bench gpu set-repository clean
