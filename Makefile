# Each command does its own set-up, once. `make` alone lists them.
.DEFAULT_GOAL := help
BIN := .venv/bin
# Every example that ends with all VMs ready. The others show refusals and contention, or need a cluster: see examples/README.md.
READY := $(filter-out $(foreach name,cluster contention diff explain failing inventory keep plan requests simulation testing,examples/$(name)/),$(wildcard examples/*/))

# Where this is set, each process of a test run compiles and instruments all tests again: 10 s of a processor.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run check quick test hardware flaky lint bench compiled conformance cluster clean site setup setup-tests lock audit sbom image image-sbom release man matrix base-image

help:  ## List these commands
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## Make .venv with the command virt-dra and what it needs
	@tools/venv.sh

setup-tests:  ## Make .venv for tests; get libvirt and Chromium (as root), a control plane (with Go) and a node (both)
	@tools/venv.sh dev
	@tools/libvirt.sh
	@tools/browser.sh
	@tools/control-plane.sh
	@tools/node.sh
	@tools/go-tools.sh
	@$(BIN)/python -m devtools.upstream.kubelet.witness

run: setup  ## Drive the example VMs from YAML to libvirt XML; objects and XML land in out/
	$(BIN)/virt-dra run --separate $(READY) --out out

# Tests in two processes more than there are processors, since nearly half of their time is waiting for other programs; PARALLEL= runs them one
# after the other. A control plane is started once for each process; the tests of a file stay together, as do files that share a cluster, and
# the longest come first: see tests/distribution.py.
PARALLEL ?= -n $(shell expr $$(nproc) + 2) --dist loadfile --no-loadscope-reorder
test: setup-tests  ## Run all tests; PYTEST_ARGS='-k launcher -x' adds options
	$(BIN)/python -m pytest $(PARALLEL) -m "not hardware" $(PYTEST_ARGS)

# In two processes, each with a machine of its own: the tests of a node, which have one cluster, take longer than all others.
hardware: setup-tests  ## Pass devices through to VMs in an emulated machine with an IOMMU, as root
	@tools/hardware-lab.sh
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m hardware tests/hardware $(PYTEST_ARGS)

check:  ## Lint, and the quick tests that need Python alone, both at once
	@tools/venv.sh dev
	@$(MAKE) --no-print-directory --jobs=2 lint quick

# These tests make some 60,000 small files, and what each has made goes with it: in memory, where programs may be started from there, since a
# disk is waited for. They wait for less than those of make test do: a process more than there are processors is enough.
MEMORY = $(shell findmnt -no OPTIONS /dev/shm | grep -qw noexec || df -Pm /dev/shm | awk '$$6 == "/dev/shm" && $$4 > 1000 {print $$6}')
quick:  ## The quick tests that need Python alone
	@tools/venv.sh dev
	$(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=$(MEMORY)) $(BIN)/python -m pytest -q -n $(shell expr $$(nproc) + 1) --dist worksteal --hypothesis-profile=quick \
		-m "not control_plane and not libvirt and not go and not root and not images and not node and not hardware and not slow" $(PYTEST_ARGS)

RUNS ?= 3
flaky: setup-tests  ## Run all tests RUNS times, list those that failed in some; BUSY=1: the last time beside load
	$(BIN)/python -m devtools.flaky $(RUNS) $(if $(BUSY),--busy) $(PARALLEL) $(PYTEST_ARGS)

KUBECONFIG_FILE ?= out/kubeconfig
# A real control plane until Ctrl-C. KUBEVIRT=1.9 (another version, none): nodes with GPUS=N GPUs of DRIVER= and kubelets that run our own
# pods, beside a small KubeVirt or without one; IMAGES=1: in containerd, of the images of make image. Also KUBECONFIG_FILE=, PORT=, NODES=N,
# GATES=all|Name=true,…, WITHOUT=kube-scheduler,…
cluster:  ## Start a real control plane until Ctrl-C; KUBEVIRT=1.9 or none adds nodes, GPUs and a small KubeVirt
	@tools/venv.sh dev
	@tools/control-plane.sh
	@$(if $(filter none,$(KUBEVIRT)),tools/libvirt.sh)
	@$(if $(IMAGES),tools/image.sh)
	@exec $(BIN)/python -m devtools.play --kubeconfig $(KUBECONFIG_FILE) $(if $(PORT),--port $(PORT)) $(if $(NODES),--nodes $(NODES)) \
		$(if $(GATES),--feature-gates $(GATES)) $(if $(WITHOUT),--without $(WITHOUT)) $(if $(KUBEVIRT),--kubevirt-version $(KUBEVIRT)) \
		$(if $(IMAGES),--images) $(if $(GPUS),--gpus $(GPUS)) $(if $(DRIVER),--driver $(DRIVER))

N ?= 20000
compiled:  ## Make a copy in out/compiled with a compiled allocator, a third faster; needs a C compiler
	@tools/venv.sh dev
	$(BIN)/python -m devtools.compiled

conformance:  ## Compare with Kubernetes' Go code: N=20000 allocations, 10 N expressions; 5 N node histories; SEED=S
	@tools/venv.sh dev
	@tools/control-plane.sh
	@tools/control-plane.sh 1.30.14
	@tools/control-plane.sh 1.31.14
	$(BIN)/python -m devtools.upstream.conformance $(N) --node-histories $$((5 * $(N))) $(if $(SEED),--seed $(SEED))
	HISTORIES_OF_A_VM=50 $(BIN)/python -m pytest -q -p no:rerunfailures tests/controllers/keeping/test_on_control_plane.py

lint:  ## Check code: ruff and mypy --strict
	@tools/venv.sh dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench:  ## Measure speed and memory against peers; prints tables
	@tools/venv.sh dev,bench
	$(BIN)/python -m bench

lock:  ## Renew requirements/*.txt after a change of pyproject.toml; UPGRADE=1 or =NAME: newer versions
	@tools/venv.sh tools
	@UPGRADE=$(UPGRADE) tools/lock.sh

site:  ## Build the documentation, and a reference of the code, into out/site; a broken link fails
	@tools/venv.sh docs
	@$(BIN)/python -m devtools.site

man:  ## Write manual pages of all commands into man/: man -l man/virt-dra-run.1
	@tools/venv.sh dev
	@$(BIN)/python -m devtools.man_pages

audit:  ## List known vulnerabilities of the locked packages; STRICT=1 for releases
	@tools/venv.sh dev
	@tools/venv.sh tools
	@$(BIN)/python -m devtools.audit $(if $(STRICT),--strict)

sbom:  ## Write the images' Python packages as CycloneDX into dist/
	@tools/venv.sh dev
	@tools/venv.sh tools
	@$(BIN)/python -m devtools.release sbom

image:  ## Build both images into out/image, without a registry, as root; RENEW=1: on a new base
	@tools/venv.sh dev
	@tools/image.sh $(if $(RENEW),--renew)

image-sbom: image  ## Write what the built images have, Debian's packages too, as CycloneDX into dist/
	@tools/venv.sh tools
	@$(BIN)/python -m devtools.release image-sbom

# REGISTRY= (of the images: for the chart), DOWNLOADS= (URL of dist/ as published: for krew's manifest), HOMEPAGE= (for it, too)
release:  ## Make wheel, chart, kubectl plugin, bills of materials, provenance, checksums in dist/; URI=, BUILDER=
	@tools/venv.sh dev
	@tools/venv.sh tools
	@$(BIN)/python -m devtools.release all $(if $(URI),--uri $(URI)) $(if $(BUILDER),--builder $(BUILDER)) \
		$(if $(REGISTRY),--registry $(REGISTRY)) $(if $(DOWNLOADS),--downloads $(DOWNLOADS)) $(if $(HOMEPAGE),--homepage $(HOMEPAGE))

matrix:  ## Run the tests that need Python alone with Python 3.11 to 3.14; STRICT=1: none may be missing
	@tools/venv.sh tools
	@STRICT=$(STRICT) tools/matrix.sh $(PYTEST_ARGS)

base-image:  ## Renew the digest of the images' base in the Containerfile
	@tools/base-image.sh

clean:  ## Remove what the others made, .venv too
	rm -rf .venv .tools dist out build man *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
