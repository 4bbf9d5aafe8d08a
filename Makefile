# The commands of the house. Each installs what it needs into .venv at its first run; later runs are
# fast, until pyproject.toml changes. Another Python (3.11 or newer): make PYTHON=python3.12 test

PYTHON ?= python3
VENV ?= .venv
KILLS = 1000
CASES = 10000
ROTATIONS = 200
FAULTS = 3000
POWER_CUTS = 500
REMOVALS = 2000
CHATS = 10000
WEB_SECONDS = 60
MUTANTS = 50
SERVER_KILLS = 1
CUTS = 20
FAILOVERS = 5
SEED = 1
LEAST_COVERED = 90

# The short form of the storms, a few seconds each: make storm SHORT=1
ifdef SHORT
WEB_SECONDS = 3
CUTS = 8
endif

# Processes that tests start import the package: with its bytecode on disk that takes half the time.
unexport PYTHONDONTWRITEBYTECODE

python = $(VENV)/bin/python
# uv takes a seventh of pip's time. It does not read pip's settings: where it finds no package, pip installs.
# Neither compiles modules: most of them are never imported.
install = { $(python) -m uv pip install --quiet --python $(python) $(1) || \
	$(python) -m pip install --quiet --no-compile $(1); }
workers = -n 2 --dist worksteal
on_path = PATH="$(abspath $(VENV))/bin:$$PATH"

.PHONY: demo test check style mypy pyright coverage docs release-check bench postgres failover storm twins frameworks \
	extras clean mutants
.NOTPARALLEL:

demo: $(VENV)/.installed
	$(python) examples/demo.py
	$(python) examples/support_agent.py

# The gate runs the tests in parts, with their storms: make test ROOMS="tests/cli tests/sync"
test: $(VENV)/.installed-test
	$(python) -m pytest $(if $(ROOMS),-m 'not postgres and not types' $(ROOMS),$(workers))

check: style mypy pyright

style: $(VENV)/.installed-check
	$(python) -m ruff check .
	$(python) -m ruff format --check .

mypy: $(VENV)/.installed-check
	$(python) -m mypy
	$(python) -m pytest -q -m types tests/typing

pyright: $(VENV)/.installed-check
	$(on_path) pyright
	$(on_path) $(python) -m tests.typing.completeness

# Branches of the rooms without input or output, by their own tests: tracing takes .8 of their time more.
coverage: $(VENV)/.installed-test
	$(python) -m coverage run --branch --source=factmem/ledger,factmem/detection,factmem/models \
		-m pytest -q tests/ledger tests/detection tests/models
	$(python) -m coverage report --skip-covered --precision=1 --fail-under=$(LEAST_COVERED)

# The documentation site, into build/site: warnings are errors, links and the reference are checked.
docs: $(VENV)/.installed-docs
	$(python) -m tests.site.check

# The archives built twice, installed and tested outside of the checkout: newest and lowest
# dependencies, each Python from 3.11 that is here. One Python: make release-check SHORT=1
release-check: $(VENV)/.uv
	$(call install,--group release)
	$(python) -m tests.release $(if $(SHORT),--short)

# Speed, side by side with other stores.
bench: $(VENV)/.installed-bench
	$(python) -m benchmarks

# PostgreSQL: the suites over every kind of store, and faults during saves of several processes.
# It starts a server itself, and PgBouncer where that is installed. The short form runs each case on a plain store
# behind row security, and the first of each table as the owner and, encrypted, behind PgBouncer. Other sweeps and
# faults run in rotation.
postgres: $(VENV)/.installed-test
	FACTMEM_POSTGRES=required $(python) -m pytest -q $(if $(SHORT),-k 'not TestEncrypted',-n 2 --both-loops) \
		-m 'not types and not storm' -o python_files='test_*.py all_kinds.py' \
		tests/postgres tests/cli/test_postgres.py
	$(python) -m tests.postgres.faults --kills $(SERVER_KILLS) --cuts $(CUTS) --terminations $(CUTS) \
		$(if $(SHORT),--in-turn)

# A primary and its synchronous standby: kill -9 under load, promotion.
failover: $(VENV)/.installed-test
	$(python) -m tests.postgres.faults --failovers $(FAILOVERS)

# The sweeps among the tests, then kills for as long as you like: make storm KILLS=5000
# They count in all: half of the kills are of encrypted stores. The tests marked `storm` have short
# storms of their own, so the short form adds only those that have no test.
storm: $(VENV)/.installed-test
ifdef SHORT
	$(python) -m pytest -m 'storm and not postgres' $(or $(ROOMS),$(workers))
else
	$(python) -m pytest $(workers) -m 'storm or not types' --both-loops --thorough
	$(python) -m tests.storms.kill_storm --kills $(KILLS)
	$(python) -m tests.storms.rotation_storm --rotations $(ROTATIONS)
	$(python) -m tests.storms.disk_faults --faults $(FAULTS) --seed $(SEED)
	$(python) -m tests.storms.disk_faults --faults $(FAULTS) --seed $(SEED) --encrypted
	$(python) -m tests.storms.power_cuts --cuts $(POWER_CUTS) --seed $(SEED)
	$(python) -m tests.storms.power_cuts --cuts $(POWER_CUTS) --seed $(SEED) --encrypted
	$(python) -m tests.storms.erasures --removals $(REMOVALS) --seed $(SEED)
	$(python) -m tests.storms.erasures --removals $(REMOVALS) --seed $(SEED) --encrypted
	$(python) -m tests.storms.tampering --cases $(CASES)
	$(python) -m tests.storms.hostile --cases $(CASES)
	$(python) -m tests.scaling
	$(python) -m tests.storms.chats --chats $(CHATS) --postgres
endif
	$(python) -m tests.storms.http_service --seconds $(WEB_SECONDS)

# Small mistakes in the core, each of which the tests of its module must notice.
mutants: $(VENV)/.installed-test
	$(python) -m tests.mutation --mutants $(MUTANTS) --seed $(SEED)

# The synchronous twins in factmem/sync, from the async classes.
twins: $(VENV)/.installed-check
	$(python) -m tests.sync.generate

# Each adapter against its framework, newest and lowest version: make frameworks ONLY=langchain
frameworks: $(VENV)/.uv
	$(python) -m tests.integrations.environments $(ONLY)

# Each pair of extras resolved, by uv: two exclude each other if and only if docs/frameworks.md says so
extras: $(VENV)/.uv
	$(on_path) $(python) -m tests.extras $(ONLY)

clean:
	rm -rf $(VENV) .frameworks build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip reads dependency groups since 25.1, and a new environment brings an older one.
$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(3 * (sys.version_info < (3, 11)))' 2>/dev/null || { \
		if [ $$? = 3 ]; then echo "'$(PYTHON)' is older than Python 3.11, which factmem needs." >&2; \
		else echo "'$(PYTHON)' does not run: it is not on this machine, or no Python." >&2; fi; \
		echo "Name Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(python) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(python) -m pip install --quiet --no-compile --upgrade "pip>=25.1" uv
	@touch $@

$(VENV)/.installed: $(VENV)/.uv pyproject.toml
	$(call install,-e .)
	@touch $@

$(VENV)/.installed-test: $(VENV)/.uv pyproject.toml
	$(call install,-e . --group test)
	@touch $@ $(VENV)/.installed

# mypy reads the tests, so it needs what they import; and all at once is half of the work of one after the other.
$(VENV)/.installed-check: $(VENV)/.uv pyproject.toml
	$(call install,-e . --group test --group check --group docs)
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test $(VENV)/.installed-docs

$(VENV)/.installed-docs: $(VENV)/.uv pyproject.toml
	$(call install,-e . --group docs)
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-test
	$(call install,-e . --group bench)
	@touch $@
