# Everything runs in .venv, which `make env` sets up from the locked versions in requirements.lock.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: env demo test test-all quick lint docs tutorials lock benchmark clean

env: .venv/ready

.venv/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "nmax needs Python 3.11 or newer; pass PYTHON=python3.11, say"'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

demo: env
	$(BIN)/python examples/ar1.py

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not extra" --durations=40

test-all: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

quick: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow and not extra"

docs: env
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet --jobs auto docs docs/_build/html
	@echo "open docs/_build/html/index.html"

tutorials: env
	$(BIN)/python docs/run_tutorials.py

benchmark: env
	$(BIN)/python benchmarks/step_time.py

lock:
	rm -rf .lock
	$(PYTHON) -m venv .lock
	.lock/bin/python -m pip install --quiet --upgrade pip
	.lock/bin/python -m pip install --quiet --group dev . hatchling editables
	.lock/bin/python -m pip freeze --exclude nmax --exclude pip > requirements.lock
	rm -rf .lock

clean:
	rm -rf .venv out docs/_build .pytest_cache .ruff_cache
