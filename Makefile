# Warren: `make run` and `make test` set themselves up and do their job; `make help` lists the rest.
# PYTHON is any Python >= 3.11; NAME, DATA, LISTEN, MANAGEMENT and ARGS are for `make run`, WORKERS for
# `make test`: so many processes share the tests of a suite, file by file, for most of them wait.
# SEED shifts the seeds of `make mutants` and `make fuzz-http`; HOURS is how long `make sim` runs. N is how many nodes
# `make compose-up` starts, MINUTES how long each scenario of `make chaos` lasts, SCENARIO and EACH
# what `make compose-test` does to a cluster and for how many seconds each.

PYTHON     ?= python3
NAME       ?= warren
DATA       ?= ./data
LISTEN     ?= 127.0.0.1:5672
MANAGEMENT ?= 127.0.0.1:15672
ARGS       ?=
WORKERS    ?= 3
SEED       ?= 0
HOURS      ?= 1
N          ?= 3
MINUTES    ?= 5
SCENARIO   ?= all
EACH       ?= 3
FUZZ       ?= 200

DEV   := .venv/bin
SETUP := $(PYTHON) tools/environment.py
TOXIPROXY := github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0
HELM      := helm.sh/helm/v3/cmd/helm@v3.16.4
TOOLS     ?= $(abspath .tools)
CYCLONEDX := $(TOOLS)/sbom/bin/cyclonedx-py
SBOM      ?= dist/warren.cdx.json
# In the order that is given: long files first, so that no worker is left alone with one.
SPREAD := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# The same sources are behind both builds: `make test` checks all of the compiled one, simulations
# and real nodes included, and of the pure one the units, these, and what needs the sources.
PURE_NODES := pika_publish pika_quorum amqp10_raw warren_client raw_wire page page_streams \
  page_reference manual_snippets migration metrics
PURE_TESTS := tests/sim/mutants $(PURE_NODES:%=tests/conformance/test_%.py) \
  tests/cluster/test_planted_bugs.py tests/cluster/test_dashboard.py \
  tests/cluster/test_page_cluster.py tests/sim/storage/test_whole_files.py \
  tests/faults/test_log_faults.py tests/golden tests/unit

# Compiled sources are kept: without them each node and each worker of the tests compiles them anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help python install docs tools helm rabbitmq3 rabbitmq4 run lint check format test test-part test-pure test-compiled test-spark test-spark-deployments faults fuzz-http mutants wheel wheel-arm64 sbom sbom-list bench clean sim \
        chaos compose-up compose-down compose-test

help:
	@echo "make run            one durable node: AMQP $(LISTEN), management $(MANAGEMENT), data $(DATA)"
	@echo "make test           the whole test suite on the compiled build, most of it on the pure one"
	@echo "make test-part      the half of it on the pure build; test-compiled: the other; test-pure: all on the pure one"
	@echo "make test-spark     the data source for PySpark; installs the extra spark (400 MB), needs Java"
	@echo "make test-spark-deployments   the same on a standalone cluster, and over Spark Connect"
	@echo "make install        the development environment alone (.venv)"
	@echo "make tools          what tests of bad networks need: Toxiproxy, in .tools (needs Go)"
	@echo "make helm           the tests of the Helm chart, with a Helm that Go builds (minutes)"
	@echo "make rabbitmq3 rabbitmq4   what tests and benchmarks beside RabbitMQ need: 3.10.8 and 4.0.5 (root, debootstrap)"
	@echo "make lint           format, lint, types and import floors alone"
	@echo "make faults         disks that fail and fill up, the long tests of it too (root: it mounts)"
	@echo "make fuzz-http      FUZZ=200 requests for each operation of the HTTP API, made of its OpenAPI document"
	@echo "make check          format, lint, types, import floors, unit and golden tests"
	@echo "make format         let ruff put the sources in order"
	@echo "make mutants        every planted fault must be found by the simulations"
	@echo "make sim            simulations with fresh seeds for HOURS=1; prints what fails"
	@echo "make chaos          clusters that are broken again and again, MINUTES=5 each scenario; the long fault tests"
	@echo "make compose-up     N=3 (5, 7) nodes in containers behind Toxiproxy; compose-down, compose-test"
	@echo "make wheel          build the compiled wheel in a copy of the sources, for the next make run; prints its path"
	@echo "make wheel-arm64    cross-compile the wheel for arm64, try it under QEMU (root, debootstrap, Debian's cross compiler)"
	@echo "make sbom           list all packages that an installation has, with versions and licences (CycloneDX)"
	@echo "make bench          build the load generators; then see bench/README.md"
	@echo "make docs           the manual as web pages, in build/manual"
	@echo "make clean          remove what was built; environments and data stay"

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Warren needs Python >= 3.11; say which: make PYTHON=/path/to/python3.11" >&2; exit 1; }

install: python
	@$(SETUP) dev

tools: $(TOOLS)/bin/toxiproxy-server

$(TOOLS)/bin/toxiproxy-server:
	@command -v go >/dev/null || { echo "Toxiproxy is built by Go, which is not there" >&2; exit 1; }
	@mkdir -p $(TOOLS)/bin/.new
	GOBIN=$(TOOLS)/bin/.new go install $(TOXIPROXY)
	@mv $(TOOLS)/bin/.new/server $@ && rmdir $(TOOLS)/bin/.new

helm: install
	@command -v go >/dev/null || { echo "Helm is built by Go, which is not there" >&2; exit 1; }
	@test -x $(TOOLS)/bin/helm || GOBIN=$(TOOLS)/bin go install $(HELM)
	@test -x $(TOOLS)/kubernetes/bin/kubernetes-validate || ($(PYTHON) -m venv $(TOOLS)/kubernetes && \
	  $(TOOLS)/kubernetes/bin/pip install --quiet 'kubernetes-validate>=1.33,<2')
	PATH="$(TOOLS)/bin:$(TOOLS)/kubernetes/bin:$$PATH" $(DEV)/python -m pytest tests/unit/test_helm_chart.py

rabbitmq3:
	tools/rabbitmq-root bookworm $(TOOLS)/rabbitmq3

rabbitmq4:
	tools/rabbitmq-root trixie $(TOOLS)/rabbitmq4

run: python
	@$(SETUP) run
	@exec .venv-run/bin/warren server --name $(NAME) --data $(DATA) \
	  --listen $(LISTEN) --management $(MANAGEMENT) $(ARGS)

lint: install
	$(DEV)/ruff format --check .
	$(DEV)/ruff check .
	$(DEV)/mypy
	$(DEV)/lint-imports

check: lint
	$(DEV)/python -m pytest -q $(wildcard tests/unit tests/golden)

format: install
	$(DEV)/ruff check --fix-only .
	$(DEV)/ruff format .

test:
	@$(MAKE) test-part
	@$(MAKE) test-compiled

test-part: install
	$(DEV)/python -m pytest $(SPREAD) $(PURE_TESTS)

test-pure: install
	$(DEV)/python -m pytest $(SPREAD)

faults: install
	WARREN_LONG=1 WARREN_FAULT_SEEDS=0:200 $(DEV)/python -m pytest tests/faults

test-compiled: python
	@$(SETUP) compiled
	tools/test-installed .venv-compiled/bin/python $(SPREAD)

fuzz-http: install
	WARREN_FUZZ=$(FUZZ) WARREN_FUZZ_SEED=$(SEED) $(DEV)/python -m pytest tests/conformance/test_http_fuzz.py

mutants: install
	$(DEV)/python tools/mutants.py --unpatched --seed $(SEED)

sim: install
	nice $(DEV)/python tools/sim.py --hours $(HOURS)

chaos: install tools
	WARREN_LONG=1 $(DEV)/python -m pytest tests/cluster tests/conformance/test_federation_faults.py
	$(DEV)/python -m node chaos run processes --minutes $(MINUTES) --seed $(SEED)
	$(DEV)/python -m node chaos run partitions --minutes $(MINUTES) --seed $(SEED)
	$(DEV)/python -m node chaos run network --minutes $(MINUTES) --seed $(SEED)
	$(DEV)/python -m node chaos run clients --minutes $(MINUTES) --seed $(SEED)
	$(DEV)/python -m node chaos run all --nodes 5 --minutes $(MINUTES) --seed $(SEED)
	$(DEV)/python -m node chaos run all --queue-type mirrored --minutes $(MINUTES) --seed $(SEED)

compose-up:
	@deploy/compose.sh up $(N)

compose-down:
	@deploy/compose.sh down $(N)

compose-test: install
	@SCENARIO=$(SCENARIO) EACH=$(EACH) deploy/compose.sh test $(N)

test-spark: install
	@WARREN_PURE=1 $(DEV)/python -m pip install --quiet --no-build-isolation --editable '.[spark]'
	$(DEV)/python -m pytest -n 2 --dist loadfile tests/spark

test-spark-deployments: install
	@WARREN_PURE=1 $(DEV)/python -m pip install --quiet --no-build-isolation --editable '.[spark]' 'pyspark[connect]'
	WARREN_LONG=1 $(DEV)/python -m pytest tests/spark/test_deployments.py tests/spark/test_placement.py tests/spark/test_queue_faults.py tests/spark/test_repeated_tasks.py tests/spark/test_spark.py tests/spark/test_stream_faults.py

docs: install
	$(DEV)/python tools/reference.py
	@test -x .venv-docs/bin/mkdocs || ($(PYTHON) -m venv .venv-docs && \
	  .venv-docs/bin/pip install --quiet 'mkdocs-material>=9.6,<10')
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo "the manual is in build/manual/index.html"

wheel: python
	@$(SETUP) wheel

wheel-arm64: python
	@$(PYTHON) tools/wheel_arm64.py

# Of what `pip install warrenmq[encrypted,ldap,oauth,s3]` installs.
sbom: python $(CYCLONEDX)
	@rm -rf build/sbom && $(PYTHON) -m venv --without-pip build/sbom
	@$(TOOLS)/sbom/bin/pip --python build/sbom/bin/python install --quiet "$$($(SETUP) wheel)[encrypted,ldap,oauth,s3]"
	@$(MAKE) -s sbom-list LISTED=build/sbom/bin/python SBOM=$(SBOM)
	@echo "the bill of materials is $(SBOM)"

sbom-list: $(CYCLONEDX)
	@mkdir -p $(dir $(SBOM))
	@$(CYCLONEDX) environment --pyproject pyproject.toml --output-reproducible \
	  --output-format JSON --output-file $(SBOM) $(LISTED)

# The tool that writes the list is in an environment of its own, so that it lists nothing of itself.
$(CYCLONEDX):
	@$(PYTHON) -m venv $(TOOLS)/sbom
	@$(TOOLS)/sbom/bin/pip install --quiet 'cyclonedx-bom>=7,<8'

bench:
	$(MAKE) -C bench

clean:
	rm -rf build dist .wheel .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	$(MAKE) -C bench clean
