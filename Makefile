# Two commands set everything up on a fresh machine with Python 3.11 or newer:
#   make demo    learns nothing about your machine: creates .venv, installs pinned versions, runs the demo
#   make test    the same, then formatter, linter, types and tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One constraints file pins what we run with and what we build with.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Bytecode is kept, whatever the shell says: tests start hundreds of processes, each of which would compile all sources.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo studio test test-all wheel lint format types docs browser bench bench-speed bench-players bench-rates bench-peers
.PHONY: bench-report bench-studio bench-stored bench-large bench-batched bench-sweep bench-gym bench-sb3 bench-machines
.PHONY: bench-real-time bench-unseen bench-danger bench-first-contacts bench-theory bench-sharp bench-coverage bench-continuum bench-soak mutants clean

demo: $(VENV)/.core
	$(BIN)/resetfree demo

# Draw your own grid and watch two players learn on it, in the browser.
studio: $(VENV)/.studio
	$(BIN)/resetfree studio

test: lint types browser $(VENV)/.dev
	$(BIN)/pytest -m "not slow" -n 2 --dist worksteal

# The long fuzz has a fresh seed each time; `make test-all RESETFREE_FUZZ_SEED=SEED` repeats the one that was printed.
test-all: lint types browser wheel $(VENV)/.all
	@seed=$${RESETFREE_FUZZ_SEED:-$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}; export RESETFREE_FUZZ_SEED=$$seed; \
	  echo "The seed of the long fuzz is $$seed: make test-all RESETFREE_FUZZ_SEED=$$seed repeats it," \
	  "and so does python -m tests.fuzz --full --seed $$seed."; \
	  $(BIN)/pytest -n 2 --dist worksteal; status=$$?; \
	  echo "The seed of the long fuzz was $$seed."; exit $$status

# What others would install: built, installed with its dependencies into a fresh environment, and used from there.
wheel: $(VENV)/.all
	rm -rf build/wheel && mkdir -p build/wheel/used
	$(BIN)/python -m build --outdir build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/pip install --quiet build/wheel/*.whl
	cd build/wheel/used && ../venv/bin/python $(CURDIR)/tests/installed.py

# Claim x mutant: for everything that can be claimed, what is broken when it fails. `make test` checks it too.
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants

# The tests of the studio drive a real browser. On Debian it is installed where we may; without one they say so and skip.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || echo "No browser: the studio's page is not tested."

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python benchmarks/tree.py --check budgets.toml
	$(BIN)/python benchmarks/words.py

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The site, in build/docs/index.html: a warning is an error, and nothing in it is loaded from elsewhere.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

bench: $(VENV)/.core
	$(BIN)/python benchmarks/oracle.py

bench-speed: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/speed.py

bench-players: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/players.py

# How Regret and Resets grow, against the theorem's 1/2: goes on where it was interrupted.
bench-rates: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/rates.py $(OPTIONS)

# Certified, expected and realised Resets with proved widths: goes on where it was interrupted.
bench-theory: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/theory.py $(OPTIONS)

# Certified Resets and Regret beside what happens, before and after the price of a reset entered the bounds.
bench-sharp: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/sharp.py $(OPTIONS)

# How often claims with a probability hold, and how much narrower widths may be.
bench-coverage: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/coverage.py $(OPTIONS)

# Algorithm 1 on a continuum of states: what an episode costs, and exact Regret and Resets.
bench-continuum: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/continuum.py --part cost $(OPTIONS)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/continuum.py --part exact --episodes 1000

# Whether memory, file and time per step stay flat over ten million episodes (an hour): goes on where it was interrupted.
bench-soak: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py ledge-v0 --episodes 10000000
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py gym:CartPole-v1 --steps 200000 --every 5000
	$(BIN)/python benchmarks/soak.py --table soak.jsonl

bench-report: $(VENV)/.core
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/report.py

bench-studio: $(VENV)/.studio
	$(BIN)/python benchmarks/studio_watchers.py

bench-stored: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/stored_transitions.py

bench-large: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/large.py

bench-batched: $(VENV)/.dev
	$(BIN)/python benchmarks/batched.py

bench-sweep: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/aggregate.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/sweep_ray.py

# Falls and resets on Gymnasium environments (about half an hour), one JSON line per seed; --table makes the tables.
bench-gym: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/gym_falls.py > falls.jsonl
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/gym_resets.py > resets.jsonl

# What newcomers type for ten environments, and whether that is solved; goes on where it was stopped, then writes the page.
bench-first-contacts: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/first_contacts.py $(OPTIONS)
	$(BIN)/python benchmarks/first_contacts.py --page

# Public environments by their default call, then SAC and PPO of Stable-Baselines3 at equal steps; goes on where it was stopped.
bench-unseen: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/unseen.py --out unseen.jsonl $(OPTIONS)
	test -d .venv-sb3 || $(PYTHON) -m venv .venv-sb3
	PIP_CONSTRAINT= .venv-sb3/bin/pip install --quiet torch==2.13.0 stable-baselines3==2.9.2 \
	  "gymnasium[mujoco]==1.4.0" mujoco==3.11.0 minigrid pygame -e .
	OMP_NUM_THREADS=1 .venv-sb3/bin/python benchmarks/unseen.py --learners sac,ppo --out unseen.jsonl $(OPTIONS)
	$(BIN)/python benchmarks/unseen.py --table unseen.jsonl --page docs/results/unseen.md

# Resets where one fall can teach about others: rule elimination beside support elimination, one JSON line per seed.
bench-danger: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/danger.py --seeds 0:10 --out danger.jsonl
	$(BIN)/python benchmarks/danger.py --table danger.jsonl

# Falls and earnings on machines with continuous actions, in processes on all cores (days on two of them; stop it with
# Ctrl-C and go on later). OPTIONS="--tasks Hopper-v5 --learners ours --jobs 2" plays a part.
bench-machines: $(VENV)/.dev
	$(BIN)/python benchmarks/machines.py $(OPTIONS)

# How late commands are, falls and kills on a machine that does not wait (hours; stop it with Ctrl-C and go on later).
# OPTIONS="--short" shows in some minutes that it works, OPTIONS="--table real_time.jsonl" prints the tables.
bench-real-time: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/real_time.py $(OPTIONS)

# Stable-Baselines3 brings PyTorch, so it lives in an environment of its own.
bench-sb3: $(VENV)/.core
	test -d .venv-sb3 || $(PYTHON) -m venv .venv-sb3
	PIP_CONSTRAINT= .venv-sb3/bin/pip install --quiet torch==2.13.0 stable-baselines3==2.9.2 \
	  "gymnasium[mujoco]==1.4.0" mujoco==3.11.0 pygame -e .
	OMP_NUM_THREADS=1 .venv-sb3/bin/python benchmarks/sb3_falls.py > sb3.jsonl

# rlberry pins an older Gymnasium, so it lives in an environment of its own. Takes about six minutes.
bench-peers: $(VENV)/.core
	test -d .venv-peers || $(PYTHON) -m venv .venv-peers
	PIP_CONSTRAINT= .venv-peers/bin/pip install --quiet rlberry==0.7.3 rlberry-scool==0.7.3
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/speed.py --peer-seconds \
	  $$(OMP_NUM_THREADS=1 .venv-peers/bin/python benchmarks/rlberry_lsvi.py 500 2>/dev/null)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "resetfree needs Python 3.11 or newer; set PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -e .
	@touch $@

$(VENV)/.studio: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -e ".[studio]"
	@touch $@ $(VENV)/.core

$(VENV)/.docs: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -e ".[docs]"
	@touch $@ $(VENV)/.core

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -e ".[dev]"
	@touch $@ $(VENV)/.core

$(VENV)/.all: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -e ".[all]"
	@touch $@ $(VENV)/.core $(VENV)/.dev

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
