# Two commands do all their set-up themselves: make run, make test. Both are quick the second time.
BIN := .venv/bin
# Every example that ends with all VMs ready. The others show refusals and contention, or need a cluster: see examples/README.md.
READY := $(filter-out examples/failing/ examples/contention/ examples/cluster/ examples/requests/,$(wildcard examples/*/))

.PHONY: run test lint bench conformance cluster clean setup setup-tests

setup:
	@tools/venv.sh

setup-tests:
	@tools/venv.sh dev
	@tools/libvirt.sh
	@tools/control-plane.sh

run: setup  ## Drive the example VMs from YAML to libvirt XML; objects and XML land in out/
	$(BIN)/virt-dra run --separate $(READY) --out out

test: setup-tests  ## Run the tests; PYTEST_ARGS adds options, e.g. PYTEST_ARGS='-k launcher -x'
	$(BIN)/python -m pytest $(PYTEST_ARGS)

KUBECONFIG_FILE ?= out/kubeconfig
# A real control plane until Ctrl-C. KUBEVIRT=1.9 (another version, none): nodes with GPUS=N GPUs of DRIVER= and kubelets that run our own
# pods, beside a small KubeVirt or without one. Also KUBECONFIG_FILE=, PORT=, NODES=N, GATES=all|Name=true,…, WITHOUT=kube-scheduler,…
cluster:
	@tools/venv.sh dev
	@tools/control-plane.sh
	@$(if $(filter none,$(KUBEVIRT)),tools/libvirt.sh)
	@exec $(BIN)/python -m tests.cluster.play --kubeconfig $(KUBECONFIG_FILE) $(if $(PORT),--port $(PORT)) $(if $(NODES),--nodes $(NODES)) \
		$(if $(GATES),--gates $(GATES)) $(if $(WITHOUT),--without $(WITHOUT)) $(if $(KUBEVIRT),--kubevirt $(KUBEVIRT)) \
		$(if $(GPUS),--gpus $(GPUS)) $(if $(DRIVER),--driver $(DRIVER))

N ?= 20000
conformance:  ## Compare with the Kubernetes references at length: N allocation cases, 10 N expressions; SEED=S repeats a run
	@tools/venv.sh dev
	$(BIN)/python -m tests.upstream.conformance $(N) $(if $(SEED),--seed $(SEED))

lint:
	@tools/venv.sh dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench:  ## Measure speed and memory against peers; prints tables
	@tools/venv.sh dev,bench
	$(BIN)/python -m bench

clean:
	rm -rf .venv out build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
