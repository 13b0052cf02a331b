# Warmpath's development targets. `make help` lists them; only Go is needed for build, test and fuzz.
GO       ?= go
FUZZTIME ?= 10s
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null)
TOOL      = $(GO) tool -modfile=tools/go.mod

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/warmpath, static and reproducible
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/warmpath ./cmd/warmpath

.PHONY: test
test: ## Run every test that needs nothing but Go
	$(GO) test ./...

.PHONY: race
race: ## Run the same tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race ./...

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' tools/fuzz.sh

.PHONY: demo
demo: ## Play the demo once
	$(GO) run ./cmd/warmpath demo --once

.PHONY: bench
bench: build ## Measure prefix extraction, hashing, ranking, a whole request, a part of a stream, and the overhead beside a bare reverse proxy (about 6 minutes)
	$(GO) test -run '^$$' -bench 'Scan|TextKey|BytesKey|Rank|Request|Part' -benchtime 200ms -benchmem ./internal/prompt ./internal/routing ./internal/proxy
	$(GO) run ./test/overhead -warmpath bin/warmpath

.PHONY: e2e
e2e: ## Run the real binary against emulated engines
	$(GO) test -count=1 -p 1 -timeout 10m -tags e2e ./test/e2e/... # one suite at a time: they measure

.PHONY: e2e-real
e2e-real: ## Run the real binary against llama.cpp servers, with SEEDS=1,2,3 three times (needs python3 with pip; about 9 minutes, 8 for each further seed)
	$(GO) test -count=1 -timeout 90m -tags e2ereal -v -run '^TestRealEngines$$' ./test/e2e/realengine $(if $(SEEDS),-seeds $(SEEDS)) $(if $(WORKLOADS),-workloads $(WORKLOADS))

.PHONY: e2e-predict
e2e-predict: ## Hold the simulator to four llama.cpp servers (needs python3 with pip, and two cores with nothing else to do; 7 minutes)
	$(GO) test -count=1 -timeout 30m -tags e2ereal -v ./test/e2e/prediction

.PHONY: compare
compare: build ## Measure Warmpath beside other routers and write docs/comparison.md (needs python3 with pip, and root on Debian; about 20 minutes)
	$(GO) build -o bin/compare ./test/compare
	bin/compare -warmpath bin/warmpath -page docs/comparison.md

.PHONY: e2e-clients
e2e-clients: ## Compare what other people's clients get from Warmpath and from a llama.cpp server (needs python3 with pip, and curl; about 1 minute, the first time about ten)
	$(GO) test -count=1 -timeout 20m -tags e2eclients -v -run '^TestClients$$' ./test/e2e/clients

.PHONY: e2e-faults
e2e-faults: ## Let llama.cpp servers behind the real binary die, come back and refuse (needs python3 with pip; about 1 minute)
	$(GO) test -count=1 -timeout 5m -parallel 8 -tags e2ereal -v -run '^TestFaults$$' ./test/e2e/realengine

e2e-real: e2e-faults # which measures nothing, so that its tests run side by side

.PHONY: e2e-vllm
e2e-vllm: ## Run the real binary against vLLM servers on the CPU (needs python3.12 with pip, and Linux; about 5 minutes, the first time ten, and 6.2 GB)
	$(GO) test -count=1 -timeout 40m -tags e2evllm -v -run '^TestVLLM$$' ./test/e2e/vllm

.PHONY: e2e-aws
e2e-aws: ## Run AWS's and OpenAI's SDKs against the real binary (needs python3 with pip; half a minute, the first time about ten)
	cd test/e2e/aws && $(GO) test -count=1 -timeout 20m -v .

.PHONY: load-tools
load-tools: ## Let aiperf, inference-perf and genai-bench measure Warmpath over llama.cpp servers, and bench the same requests (needs python3 and python3.12 with pip; about 7 minutes, the first time longer)
	$(GO) test -count=1 -timeout 40m -tags e2eloadtools -v -run '^TestLoadTools$$' ./test/e2e/loadtools

.PHONY: lint
lint: ## Check style and correctness with golangci-lint
	$(TOOL) golangci-lint run --allow-parallel-runners ./...
	cd test/e2e/aws && $(GO) tool -modfile=../../../tools/go.mod golangci-lint run --allow-parallel-runners ./...

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities (needs the Go vulnerability database)
	$(TOOL) govulncheck ./...

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) golangci-lint fmt ./...

.PHONY: generate
generate: ## Write generated references and schemas anew
	$(GO) generate ./...

.PHONY: cover
cover: ## Measure test coverage into cover.html
	$(GO) test -coverpkg=./... -coverprofile=cover.out ./...
	$(GO) tool cover -html=cover.out -o cover.html
	@$(GO) tool cover -func=cover.out | tail -n 1
