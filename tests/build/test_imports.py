"""The layout holds: no circular imports, layers pointing down, folders and files of a size."""

import ast
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import fresh
import pytest

from build import every_call

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = {
    *("warp", "boxes", "suppression", "roi", "convolution"),
    *("masks", "deformable", "losses", "jpeg"),
}
BUILT_ON_FAMILIES = {"compat", "transforms", "infer", "onnx"}
MAX_LINES, MAX_PYTHON_LINES = 600, 500

# Every layer of csrc, and the layers whose headers it may include.
LAYERS = {
    "core": {"core"},
    "cpu": {"core", "cpu"},
    "cuda": {"core", "cuda"},
    "torch": {"core", "torch"},
    "jpeg": {"core", "jpeg"},
    "python": {"core", "python", "torch"},  # torch/threads.h: torch's threads run these calls too
}

GENERATED = {"visops_build.h"}  # by the build, for all layers


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name; extensions have a stub."""
    named = {}
    for path in sorted((ROOT / "ops").rglob("*.py*")):
        if path.suffix not in (".py", ".pyi"):
            continue
        parts = ("visops", *path.relative_to(ROOT / "ops").with_suffix("").parts)
        named[".".join(parts).removesuffix(".__init__")] = path
    return named


def statements(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield imports at any depth; those for types alone tie modules together as well."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        else:
            yield from statements(node)


def imported(source: str, module: str, is_package: bool, known: set[str]) -> set[str]:
    """Return the modules of the package that a module names in its imports."""
    found = set()
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        base = node.module or ""
        if node.level:
            parents = module.split(".")
            parents = parents[: len(parents) - node.level + is_package]
            base = ".".join([*parents, base] if base else parents)
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            found.add(whole if whole in known else base)
    return found & known


def graph() -> dict[str, set[str]]:
    named = modules()
    known = set(named)
    return {
        name: imported(path.read_text(), name, path.name == "__init__.py", known)
        for name, path in named.items()
    }


def room(module: str) -> str:
    """Return the folder of ops that a module is in."""
    return [*module.split("."), ""][1]


def test_imports_have_no_circle() -> None:
    edges = graph()
    assert len(edges) > 100
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        pytest.fail(f"circular import: {' <- '.join(error.args[1])}")


def test_families_import_neither_each_other_nor_what_is_built_on_them() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if room(module) in FAMILIES
        and room(other) in (FAMILIES | BUILT_ON_FAMILIES) - {room(module)}
    ]
    assert not wrong


def includes() -> Iterator[tuple[str, str]]:
    """Yield the path of a file of csrc, and a header that it includes."""
    for path in sorted((ROOT / "csrc").rglob("*.*")):
        for header in re.findall(r'^#\s*include "(.+)"', path.read_text(), re.MULTILINE):
            yield path.relative_to(ROOT / "csrc").as_posix(), header


def test_layers_include_only_layers_below() -> None:
    found = [(path, header) for path, header in includes() if "/" in path]
    assert len(found) > 300
    assert {path.split("/")[0] for path, _ in found} == set(LAYERS)
    wrong = [
        f"{path} includes {header}"
        for path, header in found
        if header not in GENERATED and header.split("/")[0] not in LAYERS[path.split("/")[0]]
    ]
    assert not wrong


def test_families_include_no_header_of_another() -> None:
    wrong = []
    for path, header in includes():
        own, other = FAMILIES & set(path.split("/")[:-1]), FAMILIES & set(header.split("/")[:-1])
        # A file outside the families is shared, and may depend on none of them. The exceptions are
        # the bindings in python/, one file an operator, and chains, which run several of them.
        if other - own and not path.startswith(("python/", "core/chain/")):
            wrong.append(f"{path} includes {header}")
    assert not wrong


def test_no_file_is_too_long_to_hold_in_the_head() -> None:
    files = [
        path
        for folder in ("ops", "csrc", "tests", "scripts", "examples")
        for pattern in ("*.py", "*.pyi", "*.h", "*.cpp", "*.cu")
        for path in (ROOT / folder).rglob(pattern)
    ]
    assert len(files) > 400
    texts = {path: path.read_text() for path in files}
    generated = [path for path, text in texts.items() if text.startswith("// Written by scripts/")]
    assert [path.name for path in generated] == ["ops.h"]
    lines = {p: len(text.splitlines()) for p, text in texts.items() if p not in generated}
    long = {
        str(p.relative_to(ROOT)): count
        for p, count in lines.items()
        if count > (MAX_PYTHON_LINES if p.suffix in (".py", ".pyi") else MAX_LINES)
    }
    assert not long


@pytest.mark.parametrize(
    ("source", "module", "is_package", "expected"),
    [
        ("from ..b import c", "visops.a.d", False, {"visops.b.c"}),
        ("from ..b import e", "visops.a.d", False, {"visops.b"}),
        ("from .d import f", "visops.a", True, {"visops.a.d"}),
        ("def f():\n  import visops.b.c, os", "visops", True, {"visops.b.c"}),
        ("from . import d", "visops.a", True, {"visops.a.d"}),
        (
            "if TYPE_CHECKING:\n  from .a import d\nelse:\n  from . import b",
            "visops",
            True,
            {"visops.a.d", "visops.b"},
        ),
    ],
)
def test_how_imports_are_read(
    source: str, module: str, is_package: bool, expected: set[str]
) -> None:
    known = {"visops", "visops.a", "visops.a.d", "visops.b", "visops.b.c"}
    assert imported(source, module, is_package, known) == expected


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
    run = fresh.run(SCRIPT, check=True)
    loaded, later, names, public = json.loads(run.stdout)
    assert not set(loaded) & (HEAVY | LAZY | {"numpy.random", "scipy"})
    others = [name for name in loaded if name.split(".")[0] != "visops"]
    assert len(others) < 20, others
    assert set(later) & (HEAVY | LAZY) == {"visops.transforms", "visops.compat"}
    assert set(public) <= set(names)


def test_calls_import_no_compiler(tmp_path: Path) -> None:
    """Else the first call of a function takes two seconds, or fails where SymPy is missing."""
    forbidden = ("sympy", "torch.fx.experimental.symbolic_shapes", "torch._dynamo")
    file = str(tmp_path / "arguments")
    every_call.draw(file)
    program = "import sys; from build import every_call; every_call.main(*sys.argv[1:])"
    run = fresh.run(program, file, *forbidden, check=True, PYTHONPATH=os.pathsep.join(sys.path))
    found = {line.split(" at ")[0] for line in run.stdout.splitlines()}
    assert found == CALLS_TORCH_FUNC, run.stdout


MOST_FILES = 24

# Headers with one includer, and why they are not part of it.
ALONE = {
    "core/roi/geometry.h": "the model of a box, which the pages refer to",
    **dict.fromkeys(
        (f"cpu/simd/{name}.h" for name in ("avx2", "avx512", "default", "neon", "neon_sums")),
        "an instruction set",
    ),
    **dict.fromkeys(
        (
            "cpu/convolution/convolve2d_block.h",
            "cpu/masks/distance_search.h",
            "cpu/suppression/nms_grid.h",
            *(f"cpu/warp/augment_{n}.h" for n in ("resize_integers", "scatter", "task")),
            *(f"cuda/pixels/{n}.h" for n in ("colors", "lossy", "neighbourhoods")),
            "cuda/pixels/noise_and_dropouts.h",
            "cuda/warp/inverse_gather.h",
        ),
        "too long together",
    ),
}


def test_a_header_with_one_includer_is_part_of_it() -> None:
    sources = [p for folder in ("csrc", "tests") for p in (ROOT / folder).rglob("*.*")]
    sources = [p for p in sources if p.suffix in (".h", ".cpp", ".cu")]
    included = Counter(
        header
        for path in sources
        for header in set(re.findall(r'^#\s*include "(.+)"', path.read_text(), re.MULTILINE))
    )
    headers = {p.relative_to(ROOT / "csrc").as_posix() for p in (ROOT / "csrc").rglob("*.h")}
    assert {header for header in headers if included[header] < 2} == ALONE.keys()


def test_folders_have_few_files() -> None:
    files = [p for top in ("csrc", "ops", "tests", "scripts") for p in (ROOT / top).rglob("*.*")]
    written = [p for p in files if p.suffix in (".py", ".pyi", ".h", ".cpp", ".cu", ".txt")]
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in written)
    assert {f for f, n in counts.items() if n > MOST_FILES} == set()
