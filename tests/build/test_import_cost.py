"""What ``import visops`` loads: the compiler and the larger rooms only when they are used."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, sys
import torch
before = set(sys.modules)
import visops
loaded = sorted(set(sys.modules) - before)
rotate = visops.transforms.RandomRotation(9)  # attributes import what they name
visops.compat.nms
later = sorted(set(sys.modules) - before)
print(json.dumps([loaded, later, dir(visops), visops.__all__]))
"""

# torch._dynamo alone brought 900 modules, a second, and 155 MB.
HEAVY = {"torch._dynamo", "torch._inductor", "sympy", "triton", "torchvision", "matplotlib", "PIL"}
# torch.func.vjp brings the compiler: second derivatives of box_iou() call it.
CALLS_TORCH_FUNC = {
    f"torch.ops.visops.{name}_backward imports torch._dynamo"
    for name in ("box_iou", "box_iou_rotated")
}
LAZY = {"visops.transforms", "visops.compat", "visops.infer"}


def test_import_loads_no_more_than_the_operators() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120
    )
    loaded, later, names, public = json.loads(run.stdout)
    assert not set(loaded) & (HEAVY | LAZY | {"numpy.random", "scipy"})
    others = [name for name in loaded if name.split(".")[0] != "visops"]
    assert len(others) < 20, others
    assert set(later) & (HEAVY | LAZY) == {"visops.transforms", "visops.compat"}
    assert set(public) <= set(names)


def test_calls_import_no_compiler() -> None:
    """Else the first call of a function takes two seconds, or fails where SymPy is missing."""
    program = Path(__file__).with_name("every_call.py")
    forbidden = ("sympy", "torch.fx.experimental.symbolic_shapes", "torch._dynamo")
    run = subprocess.run(
        [sys.executable, program, *forbidden],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = {line.split(" at ")[0] for line in run.stdout.splitlines()}
    assert found == CALLS_TORCH_FUNC, run.stdout
