# Every target makes .venv if it is absent and installs what it needs; again only when pyproject.toml changes.
# Needs Python 3.11 or newer and GNU make. PYTHON=python3.12 make ... chooses another interpreter.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin

EXTRAS_demo := plot
EXTRAS_test := test
EXTRAS_lint := lint
EXTRAS_bench := bench
EXTRAS_docs := docs
EXTRAS_images := plot
EXTRAS_gallery := video
EXTRAS_headline := plot
EXTRAS_browser := browser
EXTRAS_wheel := wheel
EXTRAS_soak := fuzz
EXTRAS_audit := audit

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: checked help demo test test-all test-browser browser audit soak lint bench docs pages images gallery headline wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/demo.stamp ## run the main job and say where its results are
	@$(BIN)/limberjack demo

test: $(VENV)/test.stamp ## lint, then the tests without the long ones
	$(prepare)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --durations 30

test-all: $(VENV)/test.stamp ## lint, then every test but the soak
	$(prepare)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "not soak"

browser: $(VENV)/browser.stamp ## install Chromium (Debian) and the glTF validator for test-browser
	command -v chromium || apt-get install -y --no-install-recommends chromium
	npm install --no-save --no-fund --no-audit gltf-validator

test-browser: $(VENV)/browser.stamp ## the viewer and the pages in a real browser
	$(BIN)/pytest -m browser tests/browser

audit: $(VENV)/audit.stamp ## look for known vulnerabilities in what the package depends on
	$(BIN)/pip-audit --skip-editable

soak: $(VENV)/soak.stamp ## look for leaks, crashes and lost bits, for hours; CONTRIBUTING.md says how to make it shorter
	$(BIN)/pytest -s -m soak

lint: $(VENV)/lint.stamp ## style, types, import direction, kernel rules
	$(check)

bench: $(VENV)/bench.stamp ## measure against the peers, side by side
	@$(BIN)/limberjack bench

docs: $(VENV)/docs.stamp ## build the documentation into site/
	$(BIN)/python tools/make_docs.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "documentation: site/index.html"

pages: $(VENV)/docs.stamp ## write the pages that follow from the code
	$(BIN)/python tools/make_docs.py

images: $(VENV)/images.stamp ## draw the pictures of the documentation anew
	$(BIN)/python tools/make_images.py

headline: $(VENV)/headline.stamp ## draw budgets at work, the moving picture of the README, and measure their table anew
	$(BIN)/python tools/make_headline.py

gallery: $(VENV)/gallery.stamp ## paint the pictures of the gallery anew
	$(BIN)/python tools/make_gallery.py

wheel: $(VENV)/wheel.stamp ## build dist/: sdist, wheel, and a wheel for this platform with compiled kernels
	$(BIN)/python tools/make_wheel.py

clean: ## remove everything the targets made, .venv included
	rm -rf $(VENV) node_modules site demo-output papers-output build dist MUJOCO_LOG.TXT .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools -type d -name __pycache__ -prune -exec rm -rf {} +

define check
$(BIN)/ruff check
$(BIN)/pyright --pythonpath $(BIN)/python
$(BIN)/lint-imports
$(BIN)/python tools/kernel_lint.py
endef

checked:
	$(check)

# Ahead of the tests, side by side: lint, and kernels, which the workers then find in the cache instead of compiling them
# in turn.
define prepare
@$(MAKE) --no-print-directory checked & checked=$$!; $(BIN)/limberjack warmup; compiled=$$?; wait $$checked && exit $$compiled
endef

$(VENV)/%.stamp: pyproject.toml | $(BIN)/python
	@echo "installing limberjack[$(EXTRAS_$*)] into $(VENV)"
	@$(BIN)/python -m pip --require-virtualenv install -qq --disable-pip-version-check -e ".[$(EXTRAS_$*)]"
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "limberjack needs Python 3.11 or newer; choose one with PYTHON=python3.12 make ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
