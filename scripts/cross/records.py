"""Records operators' calls on one machine and makes them again on another.

    python scripts/cross/records.py record FOLDER [MODULE ...]
    python scripts/cross/records.py replay FOLDER [MODULE ...]

The calls are, as module "cases", those of tests/operators with their gradients; as "random", calls
of all operators with the fuzzer's arguments: infinite and huge numbers, empty and odd shapes; as
"chains", those of chains.py, with all that a chain draws and computes; and as "files", those of
files.py, which decode and load JPEG files. Inputs are recorded, not seeds: torch's generators and
its conversions to float16 give other bits on other machines, which is no fault of ours.

`replay` ends with an error if any result differs in bits, dtype, shape or strides, or if a call is
refused in other words. NaNs with other payloads are counted apart: which one an addition passes on
is left open by IEEE 754.
"""

import argparse
import contextlib
import io
import pickle
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import visops
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
MODULES = CASES, RANDOM, CHAINS, FILES = "cases", "random", "chains", "files"
# Before the name of a function that is no operator.
CHAIN, FILE = "chain ", "file "
TRIES = 48  # random calls of each operator
# Products of matrices, whose sums may have another order and fuse products (docs/determinism.md).
ROUNDED = ("conv2d", "convolve2d")
MOST_SHOWN = 5


def call_cases() -> None:
    """Call every case of tests/operators in two sizes and all dtypes, with its gradients."""
    from operators import CASES as ALL
    from operators.recorded import results_and_gradients

    for case in ALL:
        if case.exact and not case.composed:
            for dtype in case.dtypes:
                results_and_gradients(case, case.arguments("second", dtype))
            if "large" not in case.skip:
                results_and_gradients(case, case.arguments("large"))


def call_at_random() -> None:
    """Call every operator with drawn arguments; some are refused."""
    from fuzz.calls import all_targets, valid_arguments
    from fuzz.draws import Draw

    for target in all_targets():
        if any(word in target.name for word in ROUNDED):
            continue
        for number in range(TRIES):
            with _disable_current_modes():  # arguments are drawn from calls of their own
                arguments = valid_arguments(Draw(f"{target.name}/{number}"), target)
            with contextlib.suppress(RuntimeError, ValueError, TypeError, NotImplementedError):
                target.function(**arguments)


def packed(value: Any) -> bytes:
    """Return tensors and what holds them as bytes, strides included."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """Return what packed() was given."""
    return torch.load(io.BytesIO(data), weights_only=False)


REFUSED = "refused"  # the key of a call's error, in the place of results


class Recorder(TorchDispatchMode):
    """Keeps each call of ours: its name, its arguments before it, and its results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, bytes, bytes]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call; keep copies."""
        kwargs = kwargs or {}
        if func.namespace != "visops":
            return func(*args, **kwargs)
        before = packed((args, kwargs))
        try:
            results = func(*args, **kwargs)
        except RuntimeError as error:
            if str(error).startswith("visops"):
                self.calls.append((func.name(), before, packed(({REFUSED: str(error)}, None))))
            raise
        changed = (args, kwargs) if func._schema.is_mutable else None
        self.calls.append((func.name(), before, packed((results, changed))))
        return results


def call_files() -> list[tuple[str, bytes, bytes]]:
    """Return the calls that read JPEG files, as Recorder has those of operators."""
    from cross import files

    calls = []
    for name, arguments in files.inputs():
        result: Any
        try:
            result = files.function(name)(*arguments)
        except ValueError as error:
            result = {REFUSED: str(error)}
        calls.append((f"{FILE}{name}", packed((arguments, {})), packed((result, None))))
    return calls


def call_chains() -> list[tuple[str, bytes, bytes]]:
    """Return the calls of chains, as Recorder has those of operators."""
    from cross import chains

    calls = []
    for name, image, index in chains.inputs():
        result = chains.chain(name)(image, index=index)
        arguments: Any = (image,), {"index": index}
        calls.append((f"{CHAIN}{name}", packed(arguments), packed((result, None))))
    return calls


def function_of(operator: str) -> tuple[Any, bool]:
    """Return what a recorded call called, and whether it changes its arguments."""
    if operator.startswith(CHAIN):
        from cross import chains

        return chains.chain(operator.removeprefix(CHAIN)), False
    if operator.startswith(FILE):
        from cross import files

        return files.function(operator.removeprefix(FILE)), False
    base, _, overload = operator.removeprefix("visops::").partition(".")
    function = getattr(getattr(torch.ops.visops, base), overload or "default")
    return function, function._schema.is_mutable


def record(folder: Path, names: list[str]) -> None:
    """Make the modules' calls and keep them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        began = time.monotonic()
        if name in (CHAINS, FILES):
            calls = call_chains() if name == CHAINS else call_files()
        else:
            with Recorder() as recorder:
                call_at_random() if name == RANDOM else call_cases()
            calls = recorder.calls
        (folder / f"{name}.calls").write_bytes(pickle.dumps(calls, protocol=5))
        took = time.monotonic() - began
        print(f"recorded {name}: {len(calls)} calls, {took:.0f} s", flush=True)


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of a nest."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def refusal(recorded: Any) -> str | None:
    """Return the words by which a call was refused; None if it was not."""
    return recorded[0].get(REFUSED) if isinstance(recorded[0], dict) else None


def difference(got: Tensor, wanted: Tensor) -> str | None:
    """Say how two results differ; "NaN payloads" if in those only, None if in nothing."""
    for name in ("dtype", "shape"):
        if getattr(got, name) != getattr(wanted, name):
            return f"{name} {getattr(got, name)}, not {getattr(wanted, name)}"
    if got.stride() != wanted.stride():
        return f"strides {got.stride()}, not {wanted.stride()}"
    if not got.numel():
        return None
    size = got.element_size()
    a, b = (t.detach().contiguous().view(-1) for t in (got, wanted))
    differs = (a.view(torch.uint8) != b.view(torch.uint8)).view(-1, size).any(1)
    if not differs.any():
        return None
    if got.is_floating_point() and bool((a.isnan() & b.isnan())[differs].all()):
        return "NaN payloads"
    count = f"{int(differs.sum())} of {got.numel()} {got.dtype}"
    return f"{count}: {a[differs][:3].tolist()}, not {b[differs][:3].tolist()}"


def replay(folder: Path, names: list[str]) -> Counter[str]:
    """Make the recorded calls; return counts of what was compared and found."""
    total: Counter[str] = Counter()
    for name in names:
        began = time.monotonic()
        count: Counter[str] = Counter()
        calls = pickle.loads((folder / f"{name}.calls").read_bytes())
        for number, (operator, before, after) in enumerate(calls):
            args, kwargs = unpacked(before)
            function, is_mutable = function_of(operator)
            expected = unpacked(after)
            refused: str | None = None
            try:
                with torch.no_grad():
                    results = function(*args, **kwargs)
            except (RuntimeError, ValueError) as error:
                results, refused = (), str(error)
            words = refusal(expected)
            changed = (args, kwargs) if is_mutable and words is None else None
            got, wanted = list(tensors((results, changed))), list(tensors(expected))
            count["calls"] += 1
            count["tensors"] += len(wanted)
            count["refused"] += words is not None
            if refused != words:
                found: list[str | None] = [f"refused with {refused}, not {words}"]
            elif len(got) != len(wanted):
                found = [f"{len(got)} tensors, not {len(wanted)}"]
            else:
                found = [f for f in map(difference, got, wanted) if f is not None]
            count["NaN payloads"] += found.count("NaN payloads")
            for text in (f for f in found if f != "NaN payloads"):
                count["differ"] += 1
                if count["differ"] <= MOST_SHOWN:
                    print(f"  call {number}, {operator}: {text}")
        took = time.monotonic() - began
        print(f"replayed {name}: {dict(count)}, {took:.0f} s", flush=True)
        total += count
    return total


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["record", "replay"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("modules", nargs="*", choices=[*MODULES, []])
    arguments = parser.parse_args()
    sys.path[:0] = [str(TESTS), str(ROOT / "scripts")]
    torch.set_num_threads(1)
    info = visops.build_info()
    print(f"{info['cpu']} kernels by {info['compiler']}, {visops.__file__}", flush=True)
    names = arguments.modules or list(MODULES)
    if arguments.action == "record":
        record(arguments.folder, names)
        return
    total = replay(arguments.folder, names)
    print("TOTAL", dict(total))
    if total["differ"] or not total["tensors"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
