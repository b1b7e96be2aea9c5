# An index of what can be done here: `make help` prints it.

GO    ?= go
TOOL  := $(GO) tool -modfile=tools/go.mod
TESTS := $(TOOL) gotestsum --format pkgname --format-hide-empty-pkg

# Packages with code whose mistakes are races. The end-to-end tests run the program
# as it is built, without the detector; a simulated world runs on one goroutine at a time.
RACE   = $(shell $(GO) list ./... 2>/dev/null | grep -v -e '/e2e$$' -e '/internal/arch$$' -e '/sim$$')

.PHONY: help
help: ## print this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build ./bin/kalpa
	CGO_ENABLED=0 $(GO) build -o bin/kalpa ./cmd/kalpa

.PHONY: test
test: ## run all tests; those that need Node are skipped, and named, without it
	$(TESTS) -- -timeout 9m ./...

.PHONY: race
race: ## run the Go tests under the race detector (needs a C compiler)
	$(TESTS) -- -race -timeout 15m $(RACE)

.PHONY: lint
lint: ## check the code with golangci-lint (.golangci.yml says for what, and why)
	$(GO) vet ./...
	$(TOOL) golangci-lint run ./...

.PHONY: fmt
fmt: ## format the code
	$(TOOL) golangci-lint fmt ./...

.PHONY: conformance
conformance: ## run the MCP conformance suite against the everything server (needs Node)
	$(GO) test -count=1 -timeout 9m -run TestConformance -v ./e2e

.PHONY: e2e-deps
e2e-deps: ## install the npm packages of the end-to-end tests (needs Node)
	cd e2e && npm ci --no-audit --no-fund --loglevel=error

.PHONY: e2e
e2e: ## run the end-to-end tests with real clients and servers (needs Node)
	$(GO) test -count=1 -timeout 9m -v ./e2e/...

# Seeds that make sim runs, and how.
SEEDS ?= 1-2000

.PHONY: sim
sim: ## simulate SEEDS=1-2000, each twice; then let it find what is broken on purpose
	GOGC=400 GOMEMLIMIT=4GiB $(GO) run ./cmd/kalpa sim --seeds $(SEEDS) --verify
	GOGC=400 GOMEMLIMIT=4GiB $(GO) test -count=1 -timeout 20m -run 'TestTeeth$$' -v ./sim

.PHONY: pebble
pebble: ## random operations on the store, with crashes, failing writes and turned bits
	$(GO) test -count=1 -timeout 20m -run 'Metamorphic|PowerCut|KillTakes' -v ./storage/pebble -pebble.seeds 60

# How long make soak goes on.
FOR ?= 5m

.PHONY: soak
soak: ## run real hosts and clients through storms of faults for FOR=5m
	CGO_ENABLED=0 $(GO) build -o bin/kalpa ./cmd/kalpa
	bin/kalpa soak --for $(FOR)

# The tests that make chaos runs at full length, by name.
CHAOS = Guaranteed|HearsNothing|Storm$$|CommitBoundary

.PHONY: chaos
chaos: ## reset sessions at every point for every cause, and storms, on the real program (needs Node)
	KALPA_CHAOS=full $(GO) test -count=1 -timeout 60m -run '$(CHAOS)' ./e2e

.PHONY: guards
guards: ## take each line that docs/guarantees.md names out, and see its test fail
	$(GO) test -count=1 -timeout 40m ./internal/guarantees -guards

.PHONY: oracle-deps
oracle-deps: ## install the platform's runtime, for make oracle (needs Node)
	cd internal/oracle && npm ci --no-audit --no-fund --loglevel=error

# Without npm kalpa is compared with what was recorded, as by make test.
ORACLE = $(GO) test -count=1 -timeout 9m -parallel 16 ./internal/oracle

.PHONY: oracle
oracle: ## run the oracle's programs on the platform's runtime, where npm is, and on kalpa, and compare
	@command -v npm >/dev/null || echo "there is no npm: kalpa is compared with what was recorded"
	@! command -v npm >/dev/null || test -d internal/oracle/node_modules || $(MAKE) oracle-deps
	$(ORACLE) $(if $(shell command -v npm),-workerd)

.PHONY: oracle-record
oracle-record: oracle-deps ## write down what the oracle's programs show, and docs/compatibility.md
	$(ORACLE) -workerd -record

# What kalpa is measured beside: a folder of peers, as docs/benchmarks.md says.
PEERS ?= $(wildcard ../shared/peers)

.PHONY: bench
bench: ## measure kalpa, beside PEERS=<folder> if there is one, and rewrite docs/benchmarks.md; BENCH='-h' lists settings
	$(GO) run ./internal/bench $(if $(PEERS),-peers $(PEERS)) $(BENCH)

.PHONY: bench-peers
bench-peers: ## the same, and refuse to do it without peers
	@test -n "$(PEERS)" || { echo "name a folder of peers: make bench-peers PEERS=<folder>"; exit 2; }
	@$(MAKE) bench PEERS=$(PEERS)

.PHONY: hostile
hostile: ## measure what a client sees beside others that do harm; HOSTILE='-h' lists settings
	$(GO) run ./internal/hostile $(HOSTILE)

.PHONY: microbench
microbench: ## run the Go benchmarks of the packages
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./...

.PHONY: fuzz
fuzz: ## run each fuzz test for 30 seconds
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s $$p || exit 1; \
		done; \
	done

.PHONY: sbom
sbom: ## list what is compiled in, with licences, in bin/kalpa.cdx.json (CycloneDX; in a clone)
	@mkdir -p bin
	$(TOOL) cyclonedx-gomod app -json -licenses -output bin/kalpa.cdx.json -main cmd/kalpa .

.PHONY: clean
clean: ## remove what was built (not the data of kalpa serve)
	rm -rf bin e2e/node_modules internal/oracle/node_modules
