"""Calls every operator on a device and on the CPU, and compares bits. A program of its own.

    python scripts/agree.py --seconds 40 --out agree.json
    compute-sanitizer --tool memcheck python scripts/agree.py --tries 1

Arguments are drawn as by the fuzzer. The CPU's result comes first; what it refuses, the device must
refuse. Operators that use matrix products may differ in the last bits (docs/determinism.md).
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from fuzz.calls import Target, all_targets, describe, valid_arguments
from fuzz.draws import Draw
from torch import Tensor
from torch.utils import _pytree as pytree

# Sums in another order: by cuBLAS, or by FFTs.
ROUNDED = ("conv2d", "convolve2d")  # deform_conv2d, too
KEPT = 40  # findings in the JSON
FOUND = 3  # exit status with findings; an exception's is 1
# Arguments that stay on the host.
ON_HOST = ("fill",)
# What is refused on the CPU because of the values in a tensor.
VALUES = re.compile(r"(window|boxes|matrix|idxs|order|offsets|ends|labels|erase)\[|has no pixel")


def moved(arguments: dict[str, Any], device: str) -> dict[str, Any]:
    """The arguments with their tensors on a device."""
    return {
        name: value
        if name in ON_HOST
        else pytree.tree_map(lambda v: v.to(device) if isinstance(v, Tensor) else v, value)
        for name, value in arguments.items()
    }


def outcome(target: Target, arguments: dict[str, Any]) -> tuple[str, list[Tensor]]:
    """What is refused (its first words) or the results, written ones too, on the CPU."""
    try:
        results = target.function(**arguments)
        given = [arguments["out"]] if "out" in arguments else []
        leaves = [*pytree.tree_leaves(results), *given]
        return "", [leaf.detach().cpu() for leaf in leaves if isinstance(leaf, Tensor)]
    except (RuntimeError, ValueError, TypeError) as error:
        if "CUDA error" in str(error):  # nothing works after it
            raise
        return str(error), []


def rounding_of(name: str, arguments: dict[str, Any]) -> float:
    """The unit of rounding where sums may have another order; 0 where bits must be equal."""
    if not any(word in name for word in ROUNDED):
        return 0.0
    given = next(v for v in arguments.values() if isinstance(v, Tensor))
    return torch.finfo(given.dtype).eps if given.is_floating_point() else 2.0**-23


def difference(here: list[Tensor], there: list[Tensor], rounding: float) -> str:
    """How results differ; empty if they don't."""
    if len(here) != len(there):
        return f"{len(here)} results against {len(there)}"
    for number, (one, other) in enumerate(zip(here, there, strict=True)):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"result {number} is {describe(one)} against {describe(other)}"
        if rounding:
            wide = torch.promote_types(one.dtype, torch.float32)
            scale = float(one.to(wide).abs().nan_to_num(0, 0, 0).max()) if one.numel() else 0.0
            near, least = 64 * rounding, 64 * rounding * scale
            if not torch.allclose(one.to(wide), other.to(wide), near, least, equal_nan=True):
                return f"result {number} differs by more than rounding"
            continue
        same = (one == other) | ((one != one) & (other != other))
        if not bool(same.all()):
            where = tuple((~same).nonzero()[0].tolist())
            return (
                f"result {number} differs at {int((~same).sum())} of {same.numel()} places, first "
                f"{list(where)}: {one[where].item()} against {other[where].item()}"
            )
    return ""


def drawn(target: Target, name: str, seed: int) -> dict[str, Any]:
    """Arguments that belong together."""
    return valid_arguments(Draw(f"{name}/{seed}"), target)


def is_finding(refused: str, failed: str) -> bool:
    """Whether one refuses what the other takes; the device doesn't look at values of tensors."""
    return bool(failed) if not refused else not failed and not VALUES.search(refused)


def watched(words: list[str], out: Path, seconds: float) -> int:
    """Run this program again and again until a process ends without crashing."""
    journal = out.with_suffix(".at")
    journal.write_text("0 its start", encoding="utf-8")
    crashes: list[str] = []
    start, began = 0, time.monotonic()
    while True:
        left = seconds - (time.monotonic() - began)
        command = [sys.executable, "-X", "faulthandler", __file__, *words]
        command += ["--journal", str(journal), "--start", str(start)]
        command += ["--seconds", str(max(1.0, left))]
        code = subprocess.run(command, check=False).returncode
        if code in (0, FOUND):
            break
        number, _, text = journal.read_text().strip().partition(" ")
        crashes.append(f"exit status {code} at {text}")
        out.with_suffix(".crashes").write_text("\n".join(crashes), encoding="utf-8")
        print(crashes[-1], flush=True)
        start = int(number) + 1
        if left < 10 or len(crashes) > 8:
            break
    print(f"{len(crashes)} crashes")
    return 1 if crashes or code else 0


def main() -> int:
    parser = argparse.ArgumentParser("agree.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for a rehearsal")
    parser.add_argument("--tries", type=int, default=1000, help="draws for each operator")
    parser.add_argument("--seconds", type=float, default=1e9, help="end after this time")
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--out", type=Path, help="JSON of what differs; crashes are gone on from")
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--journal", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.out and not options.journal:
        return watched(sys.argv[1:], options.out, options.seconds)
    targets = [t for t in all_targets() if t.name.startswith("torch.ops.") and t.arguments]
    targets = [t for t in targets if options.only in t.name]
    began = time.monotonic()
    compared: Counter[str] = Counter()
    findings: list[str] = []
    calls = [(t, seed) for seed in range(options.tries) for t in targets]
    for number, (target, seed) in list(enumerate(calls))[options.start :]:
        if time.monotonic() - began > options.seconds:
            break
        name = target.name.rpartition(".")[2]
        if options.journal:  # for the process that watches this one, should it crash
            options.journal.write_text(f"{number} {name}, seed {seed}", encoding="utf-8")
        given = drawn(target, name, seed)
        there_arguments = moved(given, options.device)
        refused, here = outcome(target, given)
        failed, there = outcome(target, there_arguments)
        found = ""
        if is_finding(refused, failed):
            found = f"the CPU says {refused[:200]!r}, {options.device} says {failed[:200]!r}"
        elif not (refused or failed):
            found = difference(here, there, rounding_of(name, given))
        if found:
            words = ", ".join(f"{n}={describe(v)}" for n, v in given.items())
            findings.append(f"{name}, seed {seed}: {found}\n  {words[:600]}")
            print(findings[-1], flush=True)
        compared[name] += not refused
    if options.out:
        state = {"compared": dict(compared), "count": len(findings), "findings": findings[:KEPT]}
        options.out.write_text(json.dumps(state, indent=1), encoding="utf-8")
    names = [t.name.rpartition(".")[2] for t in targets]
    never = [name for name in names if not compared[name]]
    print(f"{sum(compared.values())} results of {len(targets)} operators compared")
    print(f"{len(findings)} findings; never compared: {', '.join(never) or 'none'}")
    return FOUND if findings else 0


if __name__ == "__main__":
    sys.exit(main())
