# Every target says what it does in `make help`. Tools that are built here are kept in the user's cache folder.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
GO ?= go
export GOFLAGS ?= -buildvcs=false
BIN := $(CURDIR)/bin
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/agentloop
# Folders that hold tests which need servers; the rest is pure.
WORLD := ./test/scenarios ./test/bench

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | column -t -s "$$(printf '\t')"

.PHONY: build
build: ## build manager, viewer, demo, model server and MCP server into bin/
	@mkdir -p $(BIN)
	$(GO) build -o $(BIN)/ ./cmd/... ./test/demo ./test/modelserver/cmd/modelserver ./test/mcpserver/cmd/mcpserver

.PHONY: demo
demo: ## run everything on this machine and show a session at work; DEMO_EXIT=1 ends by itself with a check
	@hack/demo.sh

.PHONY: control-plane
control-plane: ## get kube-apiserver, etcd, kubectl and kube-controller-manager (16-18 minutes the first time) and print their folder
	@hack/envtest/setup.sh

.PHONY: services
services: ## build the NATS and S3 servers that tests use and print their folder
	@hack/services/setup.sh

.PHONY: npm-tools
npm-tools: ## install the npm packages that adapter tests run against
	@hack/npm-tools.sh

.PHONY: test
test: ## run all tests: pure packages, adapters on real servers, API server, scenarios, page in a browser
	@hack/test.sh

.PHONY: test-unit
test-unit: ## run the tests that need no server
	@hack/test.sh unit

.PHONY: test-scenarios
test-scenarios: ## run the whole-path stories; RUN=name runs one of them
	@hack/test.sh scenarios

.PHONY: generate
generate: ## regenerate deep copies, CRDs and roles from the markers
	@hack/generate.sh

.PHONY: verify
verify: ## check formatting, vet, lint, generated files, the built page and the docs
	@hack/verify.sh

.PHONY: lint
lint: ## run golangci-lint (compiled once, some minutes)
	@hack/lint.sh

.PHONY: web
web: ## rebuild the viewer's page into web/dist (needs Node)
	@hack/web.sh

.PHONY: bench
bench: ## measure speed and storage; prints a table and writes bench.json
	@hack/bench.sh

.PHONY: clean
clean: ## remove what was built in this folder; the cache folder stays
	rm -rf $(BIN) bench.json
