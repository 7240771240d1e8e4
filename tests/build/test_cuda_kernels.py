"""What nvcc made of the CUDA kernels, read from the library; needs no GPU.

PTX still has divisions and square roots whole, which the final code spells out with fused
multiply-adds of its own. So one that is found here is one that a source file, or a compiler, made
of two roundings.
"""

import functools
import itertools
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import visops
from kernels import find_cuobjdump

CUDA_LIBRARY = Path(visops.__file__).parent / "lib" / "libvisops_cuda.so"

# One process reads the library, which takes some seconds.
pytestmark = pytest.mark.xdist_group("cuda_kernels")

# Kernels whose sums promise a tolerance instead of bits, by the beginning of their names.
FUSED = ("conv2d",)
ROUNDINGS = {
    # round() of a box's corners: half away from zero, as a truncated sum. Exact.
    "roi_pool": {"add.rz.f32", "add.rz.f64"},
    "roi_pool_regions": {"add.rz.f32", "add.rz.f64"},
}
# Kernels with functions that are not inlined, for pixels at the border. Those get the pointers of
# image and output by way of the stack. Fronts see to it that the two share no memory.
WITH_CALLS = ("affine_forward", "augment_forward")
# Bytes of a thread's stack: small arrays that are indexed at run time, and what calls save. More
# means that registers were spilled.
MOST_STACK = 96

DEFINITION = re.compile(r"^(?:\.visible |\.weak |\.extern )*\.(?:entry|func)\b", re.MULTILINE)
NAME = re.compile(r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)")
CALL = re.compile(r"\bcall(?:\.uni)?\s*(?:\([^)]*\),\s*)?([\w$]+)")
STATEMENT = re.compile(r"^(?:@!?%p\d+ )?([a-z][a-z0-9_.:]*)\s*(.*);$", re.ASCII | re.MULTILINE)
REGISTER = re.compile(r"%rd\d+")
ADDRESS = re.compile(r"\[([^\]+]+)(?:\+(-?\d+))?\]")
BLOCK_SIZE = re.compile(r"^\.maxntid ", re.MULTILINE)

RULES = {
    "fused": re.compile(r"^(?:fma|mad)\..*\b(?:f16|f16x2|bf16|bf16x2|f32|f64)$"),
    "matrices": re.compile(r"^w?g?mma\."),
    # Not to nearest. (.rni, .rzi, .rmi and .rpi make integers, which floor() and casts ask for.)
    "rounding": re.compile(r"^(?:add|sub|mul|div|fma|mad|sqrt|rcp|cvt)\.(?:rz|rm|rp|rna)\b"),
    "inexact": re.compile(r"\.(?:approx|full|ftz)\b|^(?:tanh|ex2|lg2|sin|cos|rsqrt)\."),
}


@dataclass
class Kernel:
    """A kernel's instructions of each kind, and what it reads as a constant though it writes it."""

    template: str
    bounded: bool
    found: dict[str, set[str]] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)


def parse_ptx(text: str) -> Iterator[tuple[str, Kernel]]:
    """All kernels in the output of ``cuobjdump --dump-ptx``, each with the functions it calls."""
    for module in text.split("\n.version ")[1:] or [text]:
        starts = [match.start() for match in DEFINITION.finditer(module)]
        pieces = [module[a:b] for a, b in itertools.pairwise([*starts, len(module)])]
        heads = {}
        bodies = {}
        for piece in pieces:
            head, _, body = piece.partition("\n{\n")
            found = NAME.search(head)
            assert found is not None
            heads[found[1]], bodies[found[1]] = head, body
        for name, head in heads.items():
            if ".entry " in head:
                statements = STATEMENT.findall("\n".join(_with_called(name, bodies)))
                opcodes = {opcode for opcode, _ in statements}
                kernel = Kernel(template_of(name), BLOCK_SIZE.search(head) is not None)
                kernel.found = {
                    key: set(filter(rule.search, opcodes)) for key, rule in RULES.items()
                }
                if "ld.global.nc" in bodies[name]:  # functions have other registers of these names
                    kernel.stale = stale_reads(name, STATEMENT.findall(bodies[name]))
                yield name, kernel


def _with_called(name: str, bodies: Mapping[str, str]) -> list[str]:
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        own = waiting.pop()
        if own in bodies and own not in found:
            found[own] = bodies[own]
            waiting += CALL.findall(bodies[own])
    return list(found.values())


def template_of(mangled: str) -> str:
    """The kernel's name, which follows that of its file's anonymous namespace."""
    namespace = re.search(r"(\d+)(?=_GLOBAL__N__)", mangled)
    if namespace is None:
        return mangled
    rest = mangled[namespace.end() + int(namespace[1]) :]
    length = re.match(r"\d+", rest)
    return rest[length.end() :][: int(length[0])] if length else mangled


def stale_reads(name: str, statements: list[tuple[str, str]]) -> set[str]:
    """Arguments that are read as constants (ld.global.nc) and written, as far as sums lead back."""
    prefix = f"{name}_param_"
    argument: dict[str, tuple[str, int]] = {}  # registers that hold an argument's address
    sources: dict[str, set[str]] = {}  # registers that each register is computed from
    loaded: dict[str, set[str]] = {}  # arguments that each register is loaded from
    for opcode, operands in statements:
        to, *others = REGISTER.findall(operands) or [""]
        if not to:
            continue
        if opcode == "mov.b64" and prefix in operands:
            argument[to] = (operands.rpartition(prefix)[2].strip(), 0)
        elif opcode == "add.s64" and len(others) == 1 and others[0] in argument:
            step = operands.rpartition(",")[2].strip()
            if step.lstrip("-").isdigit():
                number, start = argument[others[0]]
                argument[to] = number, start + int(step)
        elif opcode.startswith("ld.param") and (where := ADDRESS.search(operands)):
            base, offset = where[1], int(where[2] or 0)
            if base in argument or base.startswith(prefix):
                number, start = argument.get(base, (base.removeprefix(prefix), 0))
                loaded.setdefault(to, set()).add(f"{number}+{start + offset}")
        elif opcode in ("add.s64", "cvta.to.global.u64", "mov.u64", "mov.b64", "selp.b64"):
            sources.setdefault(to, set()).update(others)

    def origins(register: str) -> set[str]:
        seen, left = {register}, [register]
        while left:
            left += (new := sources.get(left.pop(), set()) - seen)
            seen |= new
        return set().union(*(loaded.get(own, set()) for own in seen))

    cached, written = set[str](), set[str]()
    for opcode, operands in statements:
        where = ADDRESS.search(operands)
        if where and opcode.startswith("ld.global.nc"):
            cached |= origins(where[1])
        elif where and opcode.startswith(("st.global", "atom.global", "red.global")):
            written |= origins(where[1])
    return cached & written


@functools.cache
def library() -> tuple[dict[str, Kernel], dict[str, int]]:
    """The library's kernels, and the most bytes of stack that each takes on any architecture."""
    if not CUDA_LIBRARY.exists():
        pytest.skip("visops was built without CUDA")
    program = find_cuobjdump()

    def dumped(what: str) -> str:
        return subprocess.run(
            [program, what, CUDA_LIBRARY], capture_output=True, text=True, check=True
        ).stdout

    stack: dict[str, int] = {}
    usage = r"Function (\S+):\n.*?STACK:(\d+).*?LOCAL:(\d+)"
    for name, *bytes_of in re.findall(usage, dumped("--dump-resource-usage")):
        stack[name] = max(stack.get(name, 0), sum(map(int, bytes_of)))
    return dict(parse_ptx(dumped("--dump-ptx"))), stack


def test_all_kernels_are_read() -> None:
    kernels, stack = library()
    assert len(kernels) > 100
    assert {"affine_forward", "nms_decide"} <= {kernel.template for kernel in kernels.values()}
    assert set(kernels) <= set(stack)


def test_results_have_equal_bits() -> None:
    """No contraction, no approximation, to nearest, matrix units and stale reads nowhere."""
    wrong = []
    for kernel in library()[0].values():
        template, found = kernel.template, kernel.found
        allowed = {
            "fused": found["fused"] if template.startswith(FUSED) else set(),
            "matrices": set(),
            "rounding": ROUNDINGS.get(template, set()),
            "inexact": set(),
        }
        wrong += [(template, key, own - allowed[key]) for key, own in found.items()]
        wrong.append((template, "stale", set() if template in WITH_CALLS else kernel.stale))
    assert [row for row in wrong if row[2]] == []


def test_blocks_are_bounded_and_nothing_spills() -> None:
    kernels, stack = library()
    assert [kernel.template for kernel in kernels.values() if not kernel.bounded] == []
    assert [
        (kernels[name].template, stack[name]) for name in kernels if stack[name] > MOST_STACK
    ] == []


PTX = """
.version 9.0
.visible .entry _ZN6visops46_GLOBAL__N__0a1b2c3d_14_nms_kernel_cu_0a1b2c3d5faultEv(
)
{
ld.param.b64 %rd1, [_ZN6visops46_GLOBAL__N__0a1b2c3d_14_nms_kernel_cu_0a1b2c3d5faultEv_param_0+8];
cvta.to.global.u64 %rd2, %rd1;
ld.global.nc.f32 %f1, [%rd2];
fma.rn.f32 %f2, %f1, %f1, %f1;
call.uni (retval0), helper, (param0);
st.global.f32 [%rd2+4], %f2;
}
.func helper(
)
{
add.rz.f32 %f1, %f1, %f1;
sqrt.approx.f32 %f1, %f1;
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f1};
}
"""


def test_faults_are_seen() -> None:
    ((_, kernel),) = parse_ptx(PTX)
    assert (kernel.template, kernel.bounded, kernel.stale) == ("fault", False, {"0+8"})
    assert all(kernel.found.values())
