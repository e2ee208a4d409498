# Every target does its own set-up, missing Debian packages included.
# `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/contiv/contiv/internal/lib/version.Version=$(VERSION)
# One way to compile for binaries, tests and lint, so that each package is compiled once.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath $(GOFLAGS)
GO_SOURCES = $(shell git ls-files -co --exclude-standard '*.go')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: packages
packages: ## install the Debian packages that the lab and the tests need
	@hack/packages.sh ip:iproute2 nft:nftables ping:iputils-ping nsenter:util-linux iptables:iptables /usr/lib/cni/portmap:containernetworking-plugins etcdctl:etcd-client

.PHONY: build
build: ## build all binaries into bin/
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...
	@ln -sf contivctl bin/contiv-netctl

PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share

.PHONY: install
install: build ## install contivctl, also as contiv-netctl, contiv-lab, manual pages and completion: make install PREFIX=/usr
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(SHARE)/man/man1' '$(SHARE)/bash-completion/completions' '$(SHARE)/zsh/site-functions' '$(SHARE)/fish/vendor_completions.d'
	install -m 755 bin/contivctl bin/contiv-lab '$(DESTDIR)$(PREFIX)/bin/'
	ln -sf contivctl '$(DESTDIR)$(PREFIX)/bin/contiv-netctl'
	@for name in contivctl contiv-netctl; do \
		env -u KUBECONFIG -u CONTIVCTL_CONFIG -u ETCD_CONFIG bin/$$name man '$(SHARE)/man/man1'; \
		bin/$$name completion bash > '$(SHARE)/bash-completion/completions/'$$name; \
		bin/$$name completion zsh > '$(SHARE)/zsh/site-functions/_'$$name; \
		bin/$$name completion fish > '$(SHARE)/fish/vendor_completions.d/'$$name.fish; \
	done
	bin/contiv-lab completion bash > '$(SHARE)/bash-completion/completions/contiv-lab'

.PHONY: demo
demo: packages ## show the main job: pods on two nodes talk, drift heals, an agent dies
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,contiv-agent contiv-cni contiv-etcd contiv-ksr contiv-lab contivctl)
	bin/contiv-lab demo

# A test that needs root, for example for network namespaces, skips itself without root. To enforce that, these tests
# lose the capabilities of root, too, where user namespaces are permitted. The other packages take minutes each: those in test/ run programs, and
# internal/vswitch/vpp runs the conformance suite.
UNPRIVILEGED = $(if $(filter 0,$(shell id -u)),$(shell unshare --user true 2>/dev/null && echo "-exec 'unshare --user'"))

.PHONY: test-unit
test-unit: ## run the tests that need no root and no network namespaces: minutes
	go test $(UNPRIVILEGED) $$(go list ./... | grep -v -e '^github.com/contiv/contiv/test/' -e '/internal/vswitch/vpp$$') ./test/house

.PHONY: test
test: test-unit packages ## run test-unit and all other tests (as root: they use network namespaces)
	cd hack/images && go test ./...
	cd test/chart && go test ./...
	go test -timeout 40m ./...

FUZZ_TIME ?= 30s

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZ_TIME, with bounded minimisation
	@hack/fuzz.sh '$(FUZZ_TIME)'

E2E_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/contiv
E2E_RUN ?= .
# Minor version of Kubernetes, a directory of hack/kubernetes: 1.32, 1.34 or 1.37. Default: the newest.
E2E_KUBERNETES ?= $(lastword $(sort $(notdir $(patsubst %/go.mod,%,$(wildcard hack/kubernetes/1.*/go.mod)))))
E2E_VSWITCH ?= kernel
# kube-proxy, or none: then Contiv translates services.
E2E_PROXY ?= kube-proxy
# IP versions of nodes, pods and services: ipv4, ipv6 or dual.
E2E_IP ?= ipv4
E2E_TIMEOUT ?= 30m
# Values of the chart (YAML) to install with: E2E_VALUES='vpp: {enabled: true, privileged: false}'
E2E_VALUES ?=
# An archive of make images, to test it instead of an image that the test makes of bin/.
E2E_IMAGE ?=
# The same for nodes with VPP: the archive with VPP that make images made of its packages.
E2E_VPP_IMAGE ?=

.PHONY: cluster-programs
cluster-programs:
	@hack/packages.sh gcc:build-essential
	@hack/kubernetes/packages.sh '$(E2E_CACHE)/debian'
	@hack/containerd/build.sh '$(E2E_CACHE)/containerd' '$(E2E_CACHE)/debian'
	@hack/kubernetes/build.sh '$(E2E_CACHE)/kubernetes/$(E2E_KUBERNETES)' '$(E2E_KUBERNETES)'
	@hack/coredns/build.sh '$(E2E_CACHE)/kubernetes/$(E2E_KUBERNETES)'

.PHONY: e2e
e2e: packages build cluster-programs ## test Contiv in a real Kubernetes cluster (builds Kubernetes the first time)
	CONTIV_E2E_CACHE='$(E2E_CACHE)' CONTIV_E2E_KUBERNETES='$(E2E_KUBERNETES)' CONTIV_E2E_VSWITCH='$(E2E_VSWITCH)' CONTIV_E2E_PROXY='$(E2E_PROXY)' CONTIV_E2E_IP='$(E2E_IP)' CONTIV_E2E_IMAGE='$(abspath $(E2E_IMAGE))' CONTIV_E2E_VPP_IMAGE='$(abspath $(E2E_VPP_IMAGE))' CONTIV_E2E_VALUES='$(E2E_VALUES)' go test -count=1 -v -timeout '$(E2E_TIMEOUT)' -run '$(E2E_RUN)' ./test/e2e

IMAGES_CACHE ?= $(E2E_CACHE)/images
IMAGES_ARCH ?= amd64 arm64
# A directory with VPP's packages (vpp_*_amd64.deb and so on), to make the image with VPP, too.
IMAGES_VPP ?=

.PHONY: images
images: ## make the container images for amd64 and arm64 in bin/images, without a container engine
	@hack/packages.sh dpkg-deb:dpkg apt-get:apt
	hack/images/build.sh '$(IMAGES_CACHE)' '$(IMAGES_VPP)' $(IMAGES_ARCH)

.PHONY: images-update
images-update: ## lock the newest Debian packages for the images
	hack/images/update.sh '$(IMAGES_CACHE)' $(IMAGES_ARCH)

VPP_RUN ?= .

.PHONY: test-vpp
test-vpp: packages ## run the tests that need a real VPP 25.10: make test-vpp VPP_BIN=/usr/bin/vpp
	@[[ -x "$${VPP_BIN:-}" ]] || { echo "VPP_BIN must name the program of VPP 25.10, with vppctl beside it: make test-vpp VPP_BIN=/usr/bin/vpp"; exit 1; }
	VPP_BIN="$$VPP_BIN" go test -count=1 -timeout 40m -run '$(VPP_RUN)' ./internal/vswitch/vpp/... ./cmd/contiv-init
	VPP_BIN="$$VPP_BIN" go test -count=1 -timeout 20m -run 'TestVPP$$' ./test/hostile
	VPP_BIN="$$VPP_BIN" go test -count=1 -v -timeout 20m -run '$(VPP_RUN)' ./test/vpp
	VPP_BIN="$$VPP_BIN" go test -count=1 -timeout 20m -run 'TestVPP$$' ./test/calico

VM_CACHE ?= $(E2E_CACHE)/vm
# Kernels: that of this Debian (stable), the newest of its backports.
VM_KERNELS ?= stable backports
# Regular expressions: which jobs (probe, demo, cgroups, cluster, conformance, linux, vpp), and which tests of conformance. The job vpp
# takes a VPP_BIN, as test-vpp does.
VM_JOBS ?= .
VM_TESTS ?= .
# Not empty: if Debian's packages cannot be had, say so and succeed.
VM_OPTIONAL ?=

.PHONY: test-vm
test-vm: packages build ## test on stock kernels of Debian in virtual machines: make test-vm VM_JOBS='probe|demo'; docs/design/kernels.md
	@if hack/packages.sh qemu-system-x86_64:qemu-system-x86 cpio:cpio depmod:kmod busybox:busybox-static xz:xz-utils ipvsadm:ipvsadm && hack/kernels.sh '$(VM_CACHE)' $(VM_KERNELS); then \
		jobs='$(VM_JOBS)'; if [[ cluster =~ $$jobs ]]; then $(MAKE) cluster-programs; fi; \
		set -x; \
		CONTIV_VM_CACHE='$(VM_CACHE)' CONTIV_E2E_CACHE='$(E2E_CACHE)' CONTIV_VM_KERNELS='$(VM_KERNELS)' CONTIV_VM_JOBS='$(VM_JOBS)' CONTIV_VM_TESTS='$(VM_TESTS)' go test -count=1 -v -timeout 0 ./test/vm $(if $(VM_UPDATE),-update); \
	else \
		echo "SKIPPED the tests on Debian's kernels: its packages cannot be had, see above" >&2; [[ -n '$(VM_OPTIONAL)' ]]; \
	fi

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l $(GO_SOURCES)); \
	if [[ -n $$unformatted ]]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool -modfile=hack/tools/go.mod staticcheck ./...
	cd hack/images && go vet ./... && go tool -modfile=../tools/go.mod staticcheck ./...
	cd test/chart && go vet ./... && go tool -modfile=../../hack/tools/go.mod staticcheck ./...

# Of known vulnerabilities: a URL; file:///DIR for a copy of https://vuln.go.dev/vulndb.zip, unpacked.
VULN_DB ?= https://vuln.go.dev
# Not empty: if the database cannot be reached, say so and succeed.
VULN_OPTIONAL ?=

.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities that our code reaches: make vulncheck VULN_DB=file:///DIR without a network
	hack/vulncheck.sh '$(VULN_DB)' $(if $(VULN_OPTIONAL),if-reachable)

.PHONY: bench-once
bench-once: packages ## run all benchmarks once, in small, so that they keep working; those of VPP need VPP_BIN
	go test -short -run '^$$' -bench . -benchtime 1x $$(git grep -l '^func Benchmark' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: bench-datapath
bench-datapath: packages ## compare the packets of pods with networks made by hand: half an hour, on an idle machine
	go test -run '^$$' -bench Datapath -benchtime 1x -timeout 2h -v ./test/datapath

.PHONY: bench
bench: ## run the benchmarks; print what the scheduler's must reach, and reach
	go run ./test/bench ./...

.PHONY: diagrams
diagrams: ## draw the control flows in docs/design/control-flows.md anew
	go test -run '^TestControlFlowsPage$$' ./kvscheduler -update

.PHONY: generate
generate: ## regenerate the Go code of the .proto files
	@hack/packages.sh protoc:protobuf-compiler
	hack/generate.sh

.PHONY: manifests
manifests: ## render deploy/*.yaml from deploy/chart, whose values are the options that there are
	go test -count=1 -run '^TestSchemaOfTheChart$$' ./test/manifests -update
	cd test/chart && go test -count=1 -run '^TestManifestsAreWhatTheChartRenders$$' . -update

.PHONY: reference
reference: ## write docs/reference from the code: commands, metrics, keys, licences
	go test -count=1 -run '^(TestLicenses|TestMetricsPage)$$' ./test/house -update
	go test -count=1 -run '^TestTable$$' ./test/families -update
	go test -count=1 -run '^TestCommandsPage$$' ./test/docs -update

.PHONY: generate-check
generate-check: generate manifests reference ## fail if generated code, manifests or reference pages are not current
	@if [[ -n $$(git status --porcelain -- api deploy docs/reference) ]]; then git status --short -- api deploy docs/reference; echo "generated files are not current: run make generate manifests reference and commit"; exit 1; fi

.PHONY: clean
clean: ## remove what build made
	rm -rf bin
