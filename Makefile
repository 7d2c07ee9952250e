# The two commands that a newcomer needs: make demo, make test. They fetch what they use themselves.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Without cgo: nothing here needs C, and the C library would add a megabyte to each process. Tests and linters have what
# is shipped, so that each package is compiled once. gRPC's pages of traces are templates, with which a program keeps all
# methods of all types: 6 MB.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -tags=grpcnotrace $(GOFLAGS)
# Without symbol tables, which are a third of a program.
GOBUILD := go build -ldflags '-s -w -X sluice/internal/cli.version=$(VERSION)'
# One compiler version, so that the committed BPF objects can be compared byte by byte.
export BPF2GO_CC := clang-19
export BPF2GO_STRIP := llvm-strip-19
# Debian has the C library's headers in a folder named for the architecture. The objects hold no path of this checkout.
export BPF2GO_CFLAGS := -O2 -g -Wall -Werror -mcpu=v3 -I$(CURDIR)/internal/bpf/include -ffile-prefix-map=$(CURDIR)=. \
	-I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu
# Debian's versions begin with a digit.
DEB_VERSION := $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-/+/g' | grep . || \
	git log -1 --format=0~%cd.%h --date=format:%Y%m%d 2>/dev/null || echo 0)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help build demo test mutants flaky check simulate chaos race race-build deps third_party generate check-generated test-web lint examples cross deb earlier release check-release image interop-runner check-interop-runner conform-peers chart check-chart check-dist vulnerabilities third-party-test interop browser fuzz bench bench-quick bench-peers evidence pages unprotected micro kernels clean

help: ## list the targets
	@grep -hE '^[a-z_-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

build: third_party ## build bin/sluice, bin/sluice-rtt and bin/sluice-lab
	$(GOBUILD) -o bin/ ./cmd/...

demo: deps build ## relay the sample clip to three subscribers and check every byte
	bin/sluice-lab demo

test: deps third_party ## run the tests that are certain on a busy machine (as root: those that need the kernel too)
	scripts/test

MUTANTS ?= ./claim/internal/check ./congestion ./player/catalog ./player/cmaf ./internal/rendition ./internal/rtpframe \
	./track
mutants: third_party ## change packages (MUTANTS='./track …') in small ways, and name what no test notices; an hour
	for p in $(MUTANTS); do go run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0 unleash \
		--threshold-efficacy 90 $$p | grep -v '^ *KILLED' || exit; done

flaky: deps third_party ## run all of make test N=20 times beside a compiler, and list what failed how often (hours, root)
	scripts/flaky $(or $(N),20)

check: deps ## run all that there is to try, on a machine that does nothing else (an hour and a half, root)
	scripts/check

# Those whose goroutines share memory. Parsers, codecs and others that only compute have none, and the packages of
# processes, browsers and kernel programs share it with those.
RACE := ./auth/hook ./claim ./player/client ./server/acme ./server/handover ./server/inside ./internal/outbox ./player/pub \
	./rtsp ./rtsp/rtspwire ./rtt/queue ./internal/udp ./media ./moqt/session ./relay \
	./server ./track ./transport/...
# The race detector is in C.
race race-build: export CGO_ENABLED := 1
# Interleaved tests have one goroutine, and would take minutes. make lint vets.
race: race-build ## run the tests of packages that share memory, with the race detector
	go test -vet=off -race -short -skip Interleaved -p 1 -timeout 15m $(RACE) $(RACE_MORE)

# With -p 1, go test also compiles one package after the other: go list uses all cores.
race-build: deps third_party ## compile what make race runs
	go list -race -export -test -deps $(RACE) >/dev/null

deps: ## install the Debian packages that tests and demo use, where they are missing
	@scripts/deps

simulate: third_party ## live through SEEDS=1000 schedules from SEED=1 on, in virtual time, each twice (the first time Go is built)
	go run ./lab/sim/overlay bin/simulate
	GOEXPERIMENT=norandomizedheapbase64 go build -tags unlucky -trimpath -overlay bin/simulate/overlay.json -o bin/simulate/ \
		-ldflags "-X main.exact=yes -X testing.testBinary=1" ./cmd/sluice-lab
	bin/simulate/sluice-lab simulate --seed $(or $(SEED),1) --seeds $(or $(SEEDS),1000) --smallest bin/simulate/smallest.json \
		$(SIMULATE)

# The same seed makes the same schedule.
chaos: deps third_party ## attack, kill and disturb everything for CHAOS=10m with SEED=1 while honest media flows (root)
	$(if $(PLOTS),mkdir -p $(PLOTS))
	CHAOS=$(or $(CHAOS),10m) SEED=$(or $(SEED),1) PLOTS=$(abspath $(PLOTS)) go test -count=1 -v -timeout 2h -run TestChaos ./e2e/chaos

third_party: ## unpack and patch quic-go, webtransport-go, gortsplib and ethtool
	@third_party/apply.sh

# The packages of the web page, as web/package-lock.json has them; no script of theirs is run.
web/node_modules: web/package-lock.json
	npm --prefix web ci --ignore-scripts --silent
	@touch $@

generate: deps third_party web/node_modules ## make what is generated: BPF objects, their Go types (clang-19), the web page (npm)
	go generate ./...

GENERATED := '*_bpfel*.go' '*_bpfel*.o' claim/constants.go fastpath/constants.go internal/delay/constants.go web/src/inside/snapshot.ts web/dist
check-generated: generate ## fail if the committed generated files are out of date
	git diff --exit-code -- $(GENERATED)
	@test -z "$$(git ls-files --others --exclude-standard -- $(GENERATED))" || { echo 'not committed:'; git status --short -- $(GENERATED); exit 1; }

test-web: deps web/node_modules ## check the types of the web page's scripts, and run their tests
	npm --prefix web run --silent check
	npm --prefix web test --silent

lint: third_party ## vet, staticcheck, gofmt, line widths
	go vet ./...
	go vet -tags unprotected ./internal/packet ./fastpath/...
	go run $(STATICCHECK) ./...
	@test -z "$$(git ls-files '*.go' | xargs gofmt -l)" || { echo 'not gofmt-ed:'; git ls-files '*.go' | xargs gofmt -l; exit 1; }
	go run ./scripts/lint

examples: deps build ## run the tests of the examples, which are modules of their own (as root)
	cd examples/relay && go vet ./... && go test -count=1 ./...
	cd examples/policy && go vet ./... && go test -count=1 ./...

cross: third_party ## cross-compile what must run elsewhere: the relay, pub and sub on macOS; see that programs stay small
	GOOS=darwin GOARCH=arm64 go build ./cmd/sluice ./cmd/sluice-rtt
	GOOS=linux GOARCH=arm64 $(GOBUILD) -o bin/cross/ ./cmd/sluice ./cmd/sluice-rtt
	test $$(stat --format %s bin/cross/sluice) -lt 36000000 -a $$(stat --format %s bin/cross/sluice-rtt) -lt 18500000
	GOOS=darwin GOARCH=arm64 go vet ./cmd/sluice-lab ./rtt/... # with tests, of which most need Linux

deb: build ## build the packages for Debian: bin/sluice-relay_VERSION_ARCHITECTURE.deb, sluice-rtt, and sluice (empty)
	rm -f bin/*.deb
	scripts/completions bin bin/completion
	scripts/packages $$(go env GOARCH) $(DEB_VERSION) bin deb dist/packages/*.yaml

release: ## build archives, packages, a repository for apt, bills of materials and checksums into bin/release
	scripts/release

check-release: deps release earlier ## install and upgrade by the release's repository, run its image, check its chart (root)
	scripts/try-image bin/release/*-image.tar amd64 arm64
	scripts/chart check bin/release/*.tgz
	unshare --net scripts/machine scripts/try-release bin/release bin/earlier/*.deb

image: third_party ## build bin/sluice-image.tar, the container image for this machine's architecture
	GOOS=linux $(GOBUILD) -o bin/image/ ./cmd/sluice
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) scripts/image-archive sluice:latest bin/sluice-image.tar \
		$$(go env GOARCH)=bin/image/sluice

interop-runner: deps third_party ## build the images for moq-interop-runner, relay and client, in bin/interop-runner
	$(GOBUILD) -o bin/image/ ./cmd/sluice ./cmd/sluice-lab
	mkdir -p bin/interop-runner
	for pair in relay=sluice client=sluice-lab; do \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) IMAGE_DESCRIPTION=dist/interop-runner/$${pair%=*}.json \
			scripts/image-archive sluice-interop-$${pair%=*}:latest bin/interop-runner/$${pair%=*}.tar \
			$$(go env GOARCH)=bin/image/$${pair#*=} || exit; \
	done

conform-peers: build bench-peers ## try the rules of MoQT at Sluice and at relays of others, into docs/results/conformance
	scripts/conform-peers docs/results/conformance
	go run ./scripts/pages

check-interop-runner: interop-runner ## run each of the runner's tests, client image against relay image (root)
	unshare --net --mount scripts/try-interop-runner bin/interop-runner/relay.tar bin/interop-runner/client.tar

chart: ## make dist/kubernetes/sluice.yaml of the Helm chart in dist/helm/sluice
	scripts/chart render

check-chart: deps chart ## check the chart by Helm and Kubernetes' schemas, and that dist/kubernetes/sluice.yaml is its result
	git diff --exit-code -- dist/kubernetes
	scripts/chart check dist/helm/sluice

# The package sluice as it was before there were two.
earlier: build
	rm -rf bin/earlier
	scripts/completions bin bin/completion
	scripts/packages $$(go env GOARCH) '0~0' bin/earlier deb scripts/testdata/earlier/nfpm.yaml

check-dist: deps deb earlier ## install, upgrade and remove the packages in a copy of this machine; check alerts (root)
	promtool check rules dist/prometheus/*.rules.yml
	promtool test rules dist/prometheus/*.test.yml
	unshare --net scripts/machine scripts/try-deb bin/earlier/*.deb bin/*.deb

vulnerabilities: third_party ## name known vulnerabilities of what the programs use (asks vuln.go.dev)
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./cmd/...

third-party-test: third_party ## quic-go's and webtransport-go's own tests on the patched trees
	third_party/test.sh

interop: deps build ## install and run the MoQ clients and relays of others, and MediaMTX, with sluice
	e2e/interop/run

browser: deps third_party ## use the web page and WebTransport in headless browsers; screenshots in bin/screenshots
	go test -count=1 -v -run Browser ./transport ./e2e/interop
	SLUICE_BROWSER=1 SLUICE_SCREENSHOTS=$(CURDIR)/bin/screenshots go test -count=1 -v ./e2e/web

fuzz: third_party ## run every fuzz target for FUZZTIME=20s each (as root: those of kernel programs, too)
	scripts/fuzz $(or $(FUZZTIME),20s)

# More relays beside Sluice: make bench-peers, then make bench BENCH='--peer moq-relay-ietf,moq-relay'
bench: deps build ## measure the relay in a lab, all scenarios: results in bench-results (45 minutes, root)
	bin/sluice-lab bench $(BENCH)

bench-quick: deps build ## measure the relay in a lab, the shortest form (less than 3 minutes, root)
	bin/sluice-lab bench --quick $(BENCH)

bench-peers: ## install the relays that sluice-lab bench --peer measures (needs Rust and npm)
	lab/bench/install-peers

evidence: deps build unprotected ## run all that docs/results has again, and write all pages (EVIDENCE=-n says how long; root)
	scripts/evidence $(EVIDENCE)

pages: third_party ## write the numbers of docs/results into README.md and docs, and check all pages
	go run ./scripts/pages
	go run ./scripts/pages check

# Nothing that is installed or shipped comes from here.
unprotected: third_party ## build programs without packet protection, for sluice-lab bench --unprotected
	$(GOBUILD) -tags unprotected -o bin/unprotected/ ./cmd/sluice ./cmd/sluice-lab

kernels: deps build ## test clocks, load all programs and run the demo on other kernels, in new virtual machines (root)
	scripts/kernels $(KERNELS)

micro: third_party ## run the Go benchmarks once
	go test -run '^$$' -bench . -benchtime 1x ./...

clean: ## remove what was built
	rm -rf bin third_party/*/src
