# Every target says what it does in "make help". Tools that are built here are kept in the user's cache folder.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
GO ?= go
export GOFLAGS ?= -buildvcs=false
BIN := $(CURDIR)/bin

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 18

.PHONY: build
build: ## build the programs (manager, viewer, and what tests and the demo use) into bin/
	@mkdir -p $(BIN)
	$(GO) build -o $(BIN)/ ./cmd/... ./test/demo ./test/modelserver/cmd/modelserver ./test/mcpserver/cmd/mcpserver

.PHONY: images
images: ## build container images for amd64 and arm64 as OCI archives, with bills of materials, into bin/images
	@hack/images.sh

.PHONY: demo
demo: ## run everything on this machine and show a session at work; DEMO_EXIT=1 ends by itself with a check
	@hack/demo.sh

.PHONY: bench
bench: ## measure speed and storage; prints a table and writes bench.json
	@hack/bench.sh

.PHONY: load
load: ## 5,100 runs in 51 namespaces against a manager with 128 MiB of memory (ten minutes; root, for the limit)
	@BENCH=storm hack/bench.sh

.PHONY: clean
clean: ## remove what was built in this folder; the cache folder stays
	rm -rf $(BIN) bench.json

.PHONY: test
test: ## run all tests: unit, adapters, API server, scenarios, page
	@hack/test.sh

.PHONY: test-unit
test-unit: ## run the tests that need no server; RACE=off leaves out the race detector
	@hack/test.sh unit

.PHONY: test-adapters
test-adapters: ## run adapters against real NATS and S3 servers, and model and tool servers of others (needs Node)
	@hack/test.sh adapters

.PHONY: test-api
test-api: ## ask a real API server about types, samples and roles
	@hack/test.sh api

.PHONY: test-scenarios
test-scenarios: ## run the whole-path stories; RUN=name runs one of them
	@hack/test.sh scenarios

.PHONY: test-page
test-page: ## run the viewer's page in a headless Chromium (needs Node)
	@hack/test.sh page

.PHONY: e2e
e2e: ## install the chart on a real node on this machine and test it there (root, containerd; says what is missing)
	@hack/e2e.sh

.PHONY: chaos
chaos: ## kill workers at every point of every story (half an hour and more); RUN=story/one-worker/point=1 tries one place
	@CHAOS_CASES=0 hack/test.sh chaos

SOAK_FAULTS ?= 1000
SOAK_SECONDS ?= 900
.PHONY: soak
soak: ## make 1,000 faults in a quarter of an hour while runs go on; SOAK_FAULTS, SOAK_SECONDS and SOAK_SEED=n change that
	@SOAK_FAULTS=$(SOAK_FAULTS) SOAK_SECONDS=$(SOAK_SECONDS) hack/test.sh soak

.PHONY: disk-full
disk-full: ## fill the disk that NATS stores on, in the middle of a run (root, for a small disk)
	@AGENTLOOP_SCENARIOS=$(CURDIR)/test/scenarios/testdata/root RUN=nats-disk-full hack/test.sh scenarios

.PHONY: verify
verify: ## check format, vet, lint, generated files, the built page, modules, licences, vulnerabilities, documents
	@hack/verify.sh

.PHONY: lint
lint: ## run golangci-lint alone (compiled once, some minutes)
	@hack/lint.sh

.PHONY: licences
licences: ## write docs/licences.md: what is linked into the programs and the page, and under which licences
	@hack/licences.sh -write docs/licences.md

.PHONY: release-notes
release-notes: ## print what changed since the latest tag
	@go run ./hack/releasenotes

.PHONY: release-check
release-check: ## say whether this commit can be released, and prepare notes, licence texts and digests; VERSION=v1.2.3
	@hack/release-check.sh

.PHONY: vulncheck
vulncheck: ## compare the programs' modules with known vulnerabilities; VULNDB=newest asks for newer data
	@hack/vulncheck.sh

.PHONY: generate
generate: ## regenerate deep copies, CRDs, roles and the reference of the kinds from the markers
	@hack/generate.sh

.PHONY: web
web: ## rebuild the viewer's page into web/dist (needs Node)
	@hack/web.sh

.PHONY: control-plane
control-plane: ## get kube-apiserver, etcd, kubectl, kube-controller-manager and helm (16-18 minutes the first time) and print their folder
	@hack/envtest/setup.sh

.PHONY: services
services: ## build the NATS and S3 servers that tests use and print their folder
	@hack/services/setup.sh

.PHONY: npm-tools
npm-tools: ## install the npm packages that tests run against and that build the page
	@hack/npm-tools.sh
