# Every target does its own set-up: a virtual environment in .venv, its packages, and the build.
# `make` alone lists them.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
IMAGES ?=
PYTEST_ARGS ?=

# In builds made here a compiler warning is an error (VISOPS_WERROR=0 lets it pass). Tests need the
# CUDA kernels compiled as plain C++ as well, for VISOPS_CPU=cuda_emulated; nothing else does.
export VISOPS_WERROR ?= 1

# CUDA kernels for this machine's GPUs. VISOPS_CUDA= (empty) compiles those that wheels hold, with
# any nvcc; VISOPS_CUDA=1 makes it an error if they can't be built.
export VISOPS_CUDA ?= native

# Containers often set this to 1, and then each of the programs that tests start compiles torch's
# Python modules again, for ten seconds.
export PYTHONDONTWRITEBYTECODE :=

# A test process per core, each with two torch threads: enough for every thread-count test. Processes
# share the cores, so threads that wait must not spin.
PYTEST := OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE $(PY) -m pytest -n auto --dist loadgroup $(PYTEST_ARGS)

SOURCES := $(shell find csrc tests/cuda_on_cpu tests/neon_emulation -type f)
CPP := $(shell find csrc ops/include examples tests/cuda_on_cpu tests/installable tests/ptx tests/neon_emulation -name '*.h' -o -name '*.cpp' -o -name '*.cu' | sort)

.DEFAULT_GOAL := help
.PHONY: help build build-tests demo test test-matrix test-infer test-gpu bench-gpu test-wheel test-asan test-tsan \
  test-cuda-check test-ptx ptx-counts test-neon test-arm test-windows test-macos \
  fuzz bench doctest docs lint format typecheck wheels clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "visops needs Python 3.11 or newer; try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "python -m venv failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

# What is compiled lazily, at the first import, is less than what pip would compile.
PIP_INSTALL := $(PY) -m pip install --no-compile

$(VENV)/.ninja: | $(PY)
	@$(PIP_INSTALL) --quiet ninja
	@touch $@

# Compilers for other systems; nothing else takes them.
$(VENV)/.cross: pyproject.toml | $(PY)
	$(INSTALL_EXTRAS) cross
	@touch $@

# Kernels need no package but ninja: a build compiles them while pip installs the others.
KERNELS :=
.PHONY: kernels pip pip-demo
kernels: | $(VENV)/.ninja
	@$(PY) scripts/build_ninja.py

# The extras of pyproject.toml, without visops: it is compiled meanwhile.
INSTALL_EXTRAS := $(PY) scripts/install_extras.py --no-compile -r requirements.txt
pip: | $(VENV)/.ninja
	$(INSTALL_EXTRAS) dev

pip-demo: | $(VENV)/.ninja
	$(INSTALL_EXTRAS) demo

PACKAGE_LISTS := requirements.txt pyproject.toml scripts/install_extras.py
$(VENV)/.packages: $(PACKAGE_LISTS) | $(VENV)/.ninja
	+@$(MAKE) --no-print-directory -j2 pip $(KERNELS)
	@touch $@ $(VENV)/.packages-demo

$(VENV)/.packages-demo: $(PACKAGE_LISTS) | $(VENV)/.ninja
	+@$(MAKE) --no-print-directory -j2 pip-demo $(KERNELS)
	@touch $@

BUILD_INPUTS := pyproject.toml setup.py $(wildcard scripts/build_*.py) scripts/cross/targets.py $(SOURCES)
define build-in-place
	$(PY) setup.py --quiet build_ext --inplace
	@$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
endef

# Each of these three builds has all that the one before it has. They share object files.
$(VENV)/.installed-native $(VENV)/.installed $(VENV)/.installed-for-tests: KERNELS := kernels

# Of the CPU kernels only this processor's best.
$(VENV)/.installed-native: export VISOPS_EMULATION = 0
$(VENV)/.installed-native: export VISOPS_ISA ?= native
$(VENV)/.installed-native: $(VENV)/.packages-demo $(BUILD_INPUTS)
	$(build-in-place)
	@touch $@

$(VENV)/.installed: export VISOPS_EMULATION = 0
$(VENV)/.installed: $(VENV)/.packages $(BUILD_INPUTS)
	$(build-in-place)
	@touch $@ $(VENV)/.installed-native

$(VENV)/.installed-for-tests: export VISOPS_EMULATION = 1
$(VENV)/.installed-for-tests: $(VENV)/.packages $(BUILD_INPUTS)
	$(build-in-place)
	@$(PY) -c "import visops; assert 'cuda_emulated' in visops.build_info()['cpu_available']"
	@touch $@ $(VENV)/.installed $(VENV)/.installed-native

build: $(VENV)/.installed  ## set up .venv and compile (only what has changed)

build-tests: $(VENV)/.installed-for-tests  ## the same, with the emulation that tests use

demo: $(VENV)/.installed-native  ## augment and warp real photos (IMAGES=folder)
	$(PY) scripts/demo $(if $(IMAGES),--images $(IMAGES))

test: build-tests  ## every test once, on this machine's best kernels, and all kernels' bits
	$(PYTEST) -m "not cluster"

# Naming these files saves collecting all others, once a kind of kernel.
MATRIX_TESTS := $(shell grep -rl 'mark\.matrix' tests --include='test_*.py')
test-matrix: build-tests  ## the tests of values again, on every other kind of kernel
	@set -e; for cpu in $$($(PY) -c "import visops; info = visops.build_info(); \
	    print(*sorted({*info['cpu_available']} - {info['cpu']}))"); do \
	  echo "== VISOPS_CPU=$$cpu"; VISOPS_CPU=$$cpu $(PYTEST) -m "matrix and not slots and not cluster" $(MATRIX_TESTS); \
	done

test-infer: build-tests  ## inference on Ray and torchrun, and when processes are killed
	$(PY) -m pip install --quiet "ray[data]"
	OMP_NUM_THREADS=2 $(PY) -m pytest -m cluster $(PYTEST_ARGS) tests/infer

# Calls of another seed: make fuzz FUZZ_ARGS="--seed 1 --calls 100000".
FUZZ_ARGS ?= --calls 20000
fuzz: build  ## call every operator and function with random arguments, in processes that may die
	OMP_NUM_THREADS=2 $(PY) scripts/fuzz $(FUZZ_ARGS)

# Builds with sanitizers stand beside the usual one, each in a folder of its own. Python was built
# without the sanitizers, so their libraries are loaded first; libstdc++ too, for its exceptions.
# Left out: tests of the build, and those that start compilers and other programs.
SANITIZED_TESTS := $(addprefix tests/,boxes compat contract convolution deformable jpeg masks roi suppression warp) \
  -m "not cluster and not cuda" -k "not compile and not process and not thread_count"
PIXEL_TESTS := $(wildcard tests/transforms/pixels/test_adjust_*.py) \
  $(patsubst %,tests/transforms/pixels/test_%.py,dropouts operations value_steps)
# The kernels that this machine runs. Compiling all of them would take three times as long.
SANITIZED_ISA ?= native
SANITIZED_BUILD = VISOPS_ISA=$(SANITIZED_ISA) VISOPS_EMULATION=0 VISOPS_CUDA=0 \
  VISOPS_WERROR=0 $(PY) setup.py --quiet build
preloaded = $$($${CXX:-g++} -print-file-name=$(1)) $$($${CXX:-g++} -print-file-name=libstdc++.so)

build/asan/.built: $(VENV)/.packages $(BUILD_INPUTS) $(shell find ops -name '*.py')
	VISOPS_SANITIZE=address,undefined $(SANITIZED_BUILD) --build-lib build/asan
	@touch $@

test-asan: build/asan/.built  ## the fast tests and the fuzzer under AddressSanitizer and UBSan
	@set -e; export PYTHONPATH=build/asan PYTHONMALLOC=malloc OMP_NUM_THREADS=2 \
	    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096:detect_odr_violation=0 \
	    UBSAN_OPTIONS=print_stacktrace=1 PRELOAD="$(call preloaded,libasan.so)"; \
	  LD_PRELOAD="$$PRELOAD" $(PY) -m pytest -p no:cacheprovider $(PIXEL_TESTS) $(SANITIZED_TESTS) $(PYTEST_ARGS); \
	  LD_PRELOAD="$$PRELOAD" $(PY) scripts/fuzz --seconds 180 --memory 4096 $(FUZZ_ARGS)

build/tsan/.built: $(VENV)/.packages $(BUILD_INPUTS) $(shell find ops -name '*.py')
	VISOPS_SANITIZE=thread $(SANITIZED_BUILD) --build-lib build/tsan
	@touch $@

# What is not instrumented (torch, Python) is not looked at; see csrc/torch/threads.h.
test-tsan: build/tsan/.built  ## the fast tests' parallel loops under ThreadSanitizer
	@set -e; export PYTHONPATH=build/tsan OMP_NUM_THREADS=2 \
	    TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:report_signal_unsafe=0 \
	    PRELOAD="$(call preloaded,libtsan.so)"; \
	  LD_PRELOAD="$$PRELOAD" $(PY) -m pytest -p no:cacheprovider $(SANITIZED_TESTS) $(PYTEST_ARGS)

# GCC compiles the CUDA kernels so that every access to memory is looked at (tests/cuda_on_cpu/checks). It
# needs no library, and the kernels run as they do under emulation.
build/cuda-check/.built: $(VENV)/.packages $(BUILD_INPUTS) $(shell find ops -name '*.py')
	VISOPS_SANITIZE=cuda VISOPS_ISA=default VISOPS_EMULATION=1 VISOPS_CUDA=0 $(PY) setup.py --quiet build \
	  --build-lib build/cuda-check
	@touch $@

CUDA_CHECKED = OMP_NUM_THREADS=2 PYTHONPATH=build/cuda-check $(PY) -m pytest -n auto --dist loadgroup \
  -p no:cacheprovider $(PYTEST_ARGS)
test-cuda-check: build/cuda-check/.built  ## emulated CUDA kernels: races, bounds, uninitialised memory, schedules
	$(CUDA_CHECKED) tests/contract/test_bits.py -k kernels_of_all_kinds
	$(CUDA_CHECKED) tests/cuda_on_cpu/test_barriers.py
	VISOPS_CPU=cuda_emulated $(CUDA_CHECKED) -m "matrix and not cluster" $(MATRIX_TESTS)

# The PTX that nvcc makes of the kernels, interpreted (tests/ptx; settings are in hook/launch.cpp). By
# default it has a GPU's constants: exactly the PTX that ships. PTX_CONSTANTS=small: the emulation's.
# PTX_GUARD=1: every access to global memory must be within a tensor.
PTX_CONSTANTS ?= gpu
PTX_GUARD ?= 0
PTX_LEAST ?= 720
PTX_BUILD := build/ptx-$(PTX_CONSTANTS)
PTX_KERNELS := build/ninja/kernels-ptx$(if $(filter gpu,$(PTX_CONSTANTS)),-gpu-constants)

$(PTX_BUILD)/.built: $(VENV)/.packages $(BUILD_INPUTS) $(wildcard tests/ptx/*/*.h tests/ptx/*/*.cpp) $(shell find ops -name '*.py')
	VISOPS_PTX=1 VISOPS_CUDA=1 VISOPS_GPU_CONSTANTS=$(if $(filter gpu,$(PTX_CONSTANTS)),1,0) VISOPS_ISA=default VISOPS_EMULATION=1 \
	  $(PY) setup.py --quiet build --build-lib $(PTX_BUILD)
	@touch $@

PTX_ENVIRONMENT = OMP_NUM_THREADS=1 PYTHONPATH=$(PTX_BUILD):tests:tests/ptx VISOPS_PTX_DIR=$(PTX_KERNELS)
PTX_TESTED = $(PTX_ENVIRONMENT) VISOPS_PTX_STATS=$(PTX_BUILD)/statistics VISOPS_PTX_LOG=$(PTX_BUILD)/findings.txt \
  $(if $(filter 1,$(PTX_GUARD)),LD_PRELOAD=build/ninja/ptx/libptx_guard.so) $(PY) -m pytest -n auto --dist loadgroup \
  -p no:cacheprovider $(if $(filter 1,$(PTX_GUARD)),-p ptx_guard) $(PYTEST_ARGS)
test-ptx: $(PTX_BUILD)/.built  ## the PTX of the CUDA kernels, interpreted: bits, tests of values (needs nvcc)
	build/ninja/ptx/self_test
	$(PTX_ENVIRONMENT) $(PY) tests/ptx/decode_all.py
	@rm -rf $(PTX_BUILD)/statistics $(PTX_BUILD)/findings.txt && mkdir $(PTX_BUILD)/statistics
	$(PTX_TESTED) tests/contract/test_bits.py -k kernels_of_all_kinds
	VISOPS_CPU=cuda_emulated $(PTX_TESTED) -m "matrix and not cluster" $(MATRIX_TESTS)
	$(PY) tests/ptx/report.py $(PTX_KERNELS) $(PTX_BUILD)/statistics --least $(PTX_LEAST)
	@! grep -s . $(PTX_BUILD)/findings.txt

ptx-counts: $(PTX_BUILD)/.built build-tests  ## what binds the GPU's rows by count: docs/cuda_counts.md (needs nvcc)
	$(PTX_ENVIRONMENT) VISOPS_PTX_COUNT=1 $(PY) scripts/cuda_counts

bench: build  ## time every operator against its peers, and draw the plots of docs/benchmarks.md
	$(PY) scripts/bench all
	$(PY) scripts/bench render

doctest: $(VENV)/.packages  ## run the documentation's examples on what was built
	$(PY) -m sphinx -W --keep-going -b doctest docs docs/_build/doctest

docs: build  ## build the documentation in docs/_build and run its examples
	$(MAKE) doctest
	$(PY) -m sphinx -W --keep-going -b html docs docs/_build/html
	$(PY) scripts/check_site.py docs/_build/html

lint: typecheck  ## check formatting, style and types; change nothing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/clang-format --dry-run -Werror $(CPP)

format: $(VENV)/.packages  ## format the Python, C++ and CUDA files
	$(VENV)/bin/ruff check --fix-only .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(CPP)

# Where no build was made: the link of an editable install (scripts/build_extensions.py).
typecheck: $(VENV)/.packages  ## check the types of the package, the scripts and the tests
	@mkdir -p build/editable && ln -sfn $(CURDIR)/ops build/editable/visops
	MYPYPATH=build/editable $(VENV)/bin/mypy -p visops
	MYPYPATH=build/editable:scripts:tests:examples/cpp $(VENV)/bin/mypy --explicit-package-bases setup.py scripts tests examples/cpp

# The default slot's ARM code, compiled for x86 with SIMDe (tests/neon_emulation).
build/neon/.built: $(VENV)/.packages $(BUILD_INPUTS) $(shell find ops -name '*.py')
	VISOPS_EMULATE_NEON=1 VISOPS_ISA=default VISOPS_EMULATION=0 VISOPS_CUDA=0 $(PY) setup.py --quiet build \
	  --build-lib build/neon
	@touch $@

test-neon: build build/neon/.built  ## ARM's kernels on x86 (needs SIMDe): x86's bits, tests of values
	$(PY) scripts/cross/records.py record build/neon-calls
	PYTHONPATH=build/neon $(PY) scripts/cross/records.py replay build/neon-calls
	OMP_NUM_THREADS=2 PYTHONPATH=build/neon $(PY) -m pytest -n auto --dist loadgroup -p no:cacheprovider \
	  $(PYTEST_ARGS) -m "matrix and not cluster" $(MATRIX_TESTS)

# Another part of the tests of values: make test-arm ARM_ARGS="--part 2/6"; all of them: "--all".
ARM_ARGS ?=
test-arm: build $(VENV)/.cross  ## the build for 64-bit ARM in an emulator, on Debian: x86's bits, tests of values
	$(PY) scripts/cross arm $(ARM_ARGS)

test-windows: build $(VENV)/.cross  ## the build for Windows in Wine: the bits of every operator
	$(PY) scripts/cross windows

test-macos: build $(VENV)/.cross  ## the build for macOS: what can be read in its libraries; nothing is run
	$(PY) scripts/cross macos

test-gpu: build-tests  ## compare a GPU with the CPU, run its tests, then again under compute-sanitizer
	@mkdir -p out && $(PY) scripts/agree.py --seconds 120 --out out/agree.json
	$(PY) -m pytest -m cuda $(PYTEST_ARGS)
	@set -e; for tool in memcheck racecheck initcheck synccheck; do \
	  compute-sanitizer --tool $$tool --error-exitcode 1 $(PY) -m pytest -m "cuda and not cluster" \
	    -p no:cacheprovider $(PYTEST_ARGS); \
	done

# BENCH_ARGS=--kernels: what each row launches, and how soon Python is done with it.
BENCH_ARGS ?= --no-memory
bench-gpu: build  ## time the rows that run on a GPU
	$(PY) scripts/bench all --device cuda $(BENCH_ARGS)

# Fewer of them: make wheels WHEELS_ARGS="--only linux-x86_64 3.11".
WHEELS_ARGS ?=
wheels: $(VENV)/.packages $(VENV)/.cross  ## build the wheels of all four systems, for every Python found, and the sources
	VISOPS_CUDA= $(PY) scripts/wheels.py build $(WHEELS_ARGS)

# The wheel built against .venv's torch, unchanged, beside the oldest torch and others.
test-wheel: wheels  ## test this machine's wheel, without the checkout, beside several torches and Pythons
	$(PY) scripts/wheels.py test $(PAIRS)

clean:  ## remove everything that was built, and the virtual environments
	rm -rf build dist out *.egg-info docs/_build ops/lib ops/*.so ops/*.pyd ops/_build.py
	rm -rf $(VENV) .venv-* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
