"""What ``import visops`` loads: the compiler and the larger rooms only when they are used."""

from __future__ import annotations

import json
import subprocess
import sys

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
