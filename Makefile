# Every task of the project. `make help` lists them; CI runs
# `make check e2e-claude e2e-vllm-ci faults fuzz soak bench-failures advisories` (.ci/run).
# A task installs what it needs; what it cannot install it names, and skips only that part.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

CACHE := .cache
BIN := target/release/lm-warden
# Arguments for the program that a target starts: `make run ARGS="--listen 127.0.0.1:9000"`.
ARGS ?=

WEB_SOURCES := crates/api/openapi.json $(shell find web -type f -not -path 'web/node_modules/*' \
  -not -path 'web/dist/*' -not -path 'web/src/api/schema.ts' 2>/dev/null)

##@ Everyday

.PHONY: help
help: ## List the tasks
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z][a-z0-9-]*:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Build everything and serve the demo: four simulated replicas as model "demo"
	$(BIN) serve $(ARGS)

.PHONY: build
build: system web ## Build the pages and the release binary that embeds them
	cargo build --release --locked -p lm-warden

.PHONY: package
package: build ## A Debian package and a tarball, into target/package
	rm -rf target/package
	scripts/package

.PHONY: test
test: system web ## Run all tests: Rust, pages, and the Python SDKs against a running service
	scripts/cargo-test --workspace
	scripts/web test
	$(MAKE) e2e-sdk e2e-package

.PHONY: check
check: format lint docs licences tree test ## Everything that has to hold before a change lands

##@ The parts of check

.PHONY: format
format: ## Formatting
	cargo fmt --all --check

.PHONY: lint
lint: system ## Clippy, warnings as errors
	cargo clippy --workspace --all-targets --locked -- -D warnings

.PHONY: docs
docs: system ## The API documentation builds without a warning
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --document-private-items

.PHONY: licences
licences: ## Licences and sources of all dependencies (deny.toml)
	scripts/cargo-deny check licenses bans sources

.PHONY: tree
tree: ## No machine's paths, registry hosts, conflict marks or large files in the tree
	scripts/check-tree

##@ End to end

.PHONY: e2e-sdk
e2e-sdk: debug-build ## The Python SDKs of Anthropic and OpenAI against a running service
	scripts/e2e-sdk

.PHONY: e2e-package
e2e-package: debug-build ## The packages (of the development build) unpacked into empty folders and used
	scripts/e2e-package

.PHONY: e2e-claude
e2e-claude: debug-build ## Claude Code in a namespace of its own; affinity on beside off
	scripts/e2e-claude

.PHONY: e2e-vllm
e2e-vllm: debug-build ## A real vLLM (CPU build, 3 GB fetched once, 6 GB in .cache), then Claude Code before it
	scripts/e2e-vllm
	scripts/e2e-claude --vllm

.PHONY: e2e-vllm-ci
e2e-vllm-ci: debug-build ## The part of it that CI runs: a quarter of an hour on two cores
	scripts/e2e-vllm --ci

##@ Trust

.PHONY: fuzz
fuzz: ## Fuzz every parser of outside bytes; ARGS="SECONDS [TARGET...]", ten minutes each: ARGS=600
	scripts/fuzz $(ARGS)

.PHONY: properties
properties: system ## The property tests from a seed that is drawn and printed; ARGS="CASES [SEED]"
	scripts/properties $(ARGS)

.PHONY: faults
faults: system ## Faults from seeds, in virtual time, then kills of real processes; ARGS="FROM..TO KILLS"
	scripts/faults $(ARGS)

.PHONY: soak
soak: build ## 2,000 slow streams, clients that leave, engines that die; hours: ARGS="--seconds 14400"
	scripts/trial soak $(ARGS)

.PHONY: bench-failures
bench-failures: build ## What a killed and a wedged replica cost under 20 new sessions a second
	scripts/trial failures $(ARGS)

.PHONY: advisories
advisories: ## Known vulnerabilities of the dependencies, where their database can be reached
	scripts/advisories

##@ Measurements

.PHONY: bench-routing
bench-routing: system ## One routing decision among 64 replicas and a million conversations
	cargo bench --locked -p lm-warden-routing

.PHONY: bench-scan
bench-scan: system ## Reading a request's body, and what the chain for "why cold" adds to it
	cargo bench --locked -p lm-warden-vllm --bench scan

.PHONY: bench-history
bench-history: system ## Figures of any range from 1,000,000 requests, each under 200 ms (more: ARGS=10000000), and lists
	cargo bench --locked -p lm-warden-warden --bench history -- $(ARGS)

.PHONY: bench-sim
bench-sim: system ## How much faster than real time the simulator runs the published workload
	cargo bench --locked -p lm-warden-sim

.PHONY: bench-leases
bench-leases: build ## Balanced, affinity and leases in real time on simulated replicas that are too small (11 minutes)
	scripts/bench-leases $(ARGS)

.PHONY: bench-proxy
bench-proxy: build ## lm-warden beside nginx, haproxy and no proxy: CPU, added TTFB, memory
	scripts/bench-proxy $(ARGS)

.PHONY: pictures
pictures: web debug-build ## Every page in every state (artifacts/pages), and docs/pages.md's: 12 minutes of load
	@scripts/ensure chromium=chromium
	cd web && npm run --silent pictures && node test/docs-pictures.js

.PHONY: report-picture
report-picture: build ## README's picture of a report: the simulator beside the published numbers
	@scripts/ensure chromium=chromium
	mkdir -p $(CACHE)
	$(BIN) simulate run --workload published --json $(CACHE)/simulated.json
	$(BIN) bench report $(CACHE)/simulated.json --html $(CACHE)/simulated.html
	node web/test/report-picture.js $(CACHE)/simulated.html docs/images/report.png

##@ Housekeeping

.PHONY: web
web: $(if $(wildcard web/package.json),web/dist/.built) ## The pages

web/node_modules/.installed: web/package-lock.json
	scripts/web install

web/dist/.built: web/node_modules/.installed $(WEB_SOURCES)
	scripts/web build

# What the end-to-end tests run: `make test` has built it already.
.PHONY: debug-build
debug-build: system
	cargo build --locked -p lm-warden

.PHONY: system
system:
	@scripts/ensure --needed cargo= cc=build-essential

.PHONY: clean
clean: ## Remove what was built and cached
	rm -rf target web/dist/pages web/dist/.built web/node_modules $(CACHE)
