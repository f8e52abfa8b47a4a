# Each command does its own set-up, once: make run, make check (quick), make test (everything).
BIN := .venv/bin
# Every example that ends with all VMs ready. The others show refusals and contention, or need a cluster: see examples/README.md.
READY := $(filter-out $(foreach name,cluster contention diff explain failing inventory requests simulation testing,examples/$(name)/),$(wildcard examples/*/))

.PHONY: run check test flaky lint bench compiled conformance cluster clean site setup setup-tests lock audit sbom image image-sbom release man matrix base-image

setup:
	@tools/venv.sh

setup-tests:
	@tools/venv.sh dev
	@tools/libvirt.sh
	@tools/control-plane.sh

run: setup  ## Drive the example VMs from YAML to libvirt XML; objects and XML land in out/
	$(BIN)/virt-dra run --separate $(READY) --out out

# Tests on all processors; PARALLEL= runs them one after the other. A control plane, a world of the end-to-end tests and the like are started
# once for each process, and the tests of a file stay together.
PARALLEL ?= -n logical --dist loadfile
test: setup-tests  ## Run all tests; PYTEST_ARGS adds options, e.g. PYTEST_ARGS='-k launcher -x'
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

check: lint  ## Lint, and the quick tests that need Python alone
	$(BIN)/python -m pytest -q -n logical --dist worksteal --hypothesis-profile=quick \
		-m "not control_plane and not libvirt and not go and not root and not images and not slow" $(PYTEST_ARGS)

RUNS ?= 3
flaky: setup-tests  ## Run all tests RUNS times and list those that failed in some; BUSY=1 occupies the processors in the last run
	$(BIN)/python -m devtools.flaky $(RUNS) $(if $(BUSY),--busy) $(PARALLEL) $(PYTEST_ARGS)

KUBECONFIG_FILE ?= out/kubeconfig
# A real control plane until Ctrl-C. KUBEVIRT=1.9 (another version, none): nodes with GPUS=N GPUs of DRIVER= and kubelets that run our own
# pods, beside a small KubeVirt or without one; IMAGES=1: in containerd, of the images of make image. Also KUBECONFIG_FILE=, PORT=, NODES=N,
# GATES=all|Name=true,…, WITHOUT=kube-scheduler,…
cluster:
	@tools/venv.sh dev
	@tools/control-plane.sh
	@$(if $(filter none,$(KUBEVIRT)),tools/libvirt.sh)
	@$(if $(IMAGES),tools/image.sh)
	@exec $(BIN)/python -m devtools.play --kubeconfig $(KUBECONFIG_FILE) $(if $(PORT),--port $(PORT)) $(if $(NODES),--nodes $(NODES)) \
		$(if $(GATES),--feature-gates $(GATES)) $(if $(WITHOUT),--without $(WITHOUT)) $(if $(KUBEVIRT),--kubevirt-version $(KUBEVIRT)) \
		$(if $(IMAGES),--images) $(if $(GPUS),--gpus $(GPUS)) $(if $(DRIVER),--driver $(DRIVER))

N ?= 20000
compiled:  ## A copy of the packages in out/compiled with the allocator's hot modules compiled by mypyc (needs a C compiler): a third faster
	@tools/venv.sh dev
	$(BIN)/python -m devtools.compiled

conformance:  ## Compare with the Kubernetes references at length: N allocation cases, 10 N expressions; histories of loops; SEED=S repeats a run
	@tools/venv.sh dev
	$(BIN)/python -m devtools.upstream.conformance $(N) $(if $(SEED),--seed $(SEED))

lint:
	@tools/venv.sh dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench:  ## Measure speed and memory against peers; prints tables
	@tools/venv.sh dev,bench
	$(BIN)/python -m bench

lock:  ## Renew requirements/*.txt after a change of pyproject.toml; UPGRADE=1 takes the newest of everything, UPGRADE=name of that
	@tools/venv.sh tools
	@UPGRADE=$(UPGRADE) tools/lock.sh

site:  ## Build the documentation as a site into out/site; a broken link or anchor fails; it loads nothing from a network
	@tools/venv.sh docs
	@$(BIN)/python -m devtools.site

man:  ## Manual pages of all commands into man/: man -l man/virt-dra-run.1; the wheel of `make release` has them
	@tools/venv.sh dev
	@$(BIN)/python -m devtools.man_pages

audit:  ## Known vulnerabilities of the locked packages; requirements/audit-ignore.toml lists those that do no harm; STRICT=1 for releases
	@tools/venv.sh dev
	@tools/venv.sh tools
	@$(BIN)/python -m devtools.audit $(if $(STRICT),--strict)

sbom:  ## The images' Python packages as CycloneDX, into dist/
	@tools/venv.sh dev
	@tools/venv.sh tools
	@$(BIN)/python -m devtools.release sbom

image:  ## Both images as OCI archives in out/image, built without a registry on a base of today's Debian; as root. RENEW=1: on a new base
	@tools/venv.sh dev
	@tools/image.sh $(if $(RENEW),--renew)

image-sbom: image  ## What the built images have, Debian's packages and Python's, as CycloneDX, into dist/
	@tools/venv.sh tools
	@$(BIN)/python -m devtools.release image-sbom

release:  ## Wheel, sdist, bills of materials, provenance and checksums of this commit, into dist/; URI= and BUILDER= for the provenance
	@tools/venv.sh dev
	@tools/venv.sh tools
	@$(BIN)/python -m devtools.release all $(if $(URI),--uri $(URI)) $(if $(BUILDER),--builder $(BUILDER))

matrix:  ## The tests that need no program from outside, with Python 3.11 to 3.14; STRICT=1 fails where one is missing
	@tools/venv.sh tools
	@STRICT=$(STRICT) tools/matrix.sh $(PYTEST_ARGS)

base-image:  ## Renew the digest of the images' base in the Containerfile
	@tools/base-image.sh

clean:
	rm -rf .venv .tools dist out build man *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
