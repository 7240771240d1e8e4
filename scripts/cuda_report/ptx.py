"""Reads PTX: what a kernel computes with, how deep in loops, and what it reads and writes.

PTX still has divisions and square roots whole, which the final code spells out with fused
multiply-adds of its own. So a fused multiply-add found here is one that a source file, or a
compiler, made of two roundings.
"""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cuda_report.loops import loop_depths

# A label, or: predicate, opcode, operands.
STATEMENT = re.compile(
    r"^(?:(\$L\w+):|(@!?%p\d+ )?([a-z][a-z0-9_.:]*)\s*(.*);)$", re.ASCII | re.MULTILINE
)
REGISTER = re.compile(r"%rd\d+")
MEMORY = re.compile(r"\[([^\]+]+)(?:\+(-?\d+))?\]")
ARRAY = re.compile(r"^\.local .*\[(\d+)\];$", re.MULTILINE)
BLOCK_SIZE = re.compile(r"^\.maxntid (\d+), (\d+), (\d+)$", re.MULTILINE)

# The first line of a kernel or of a function, its name, and a call's function.
DEFINITION = re.compile(r"^(?:\.visible |\.weak |\.extern )*\.(?:entry|func)\b", re.MULTILINE)
NAME = re.compile(r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)")
CALL = re.compile(r"\bcall(?:\.uni)?\s*(?:\([^)]*\),\s*)?([\w$]+)")

LEAVES = ("bra", "ret", "exit", "brx")
FLOATING = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}
INTEGERS = {"s32", "u32", "s64", "u64"}
DOUBLE_WORK = {
    *("add", "sub", "mul", "div", "fma", "mad", "sqrt", "rcp", "rsqrt"),
    *("min", "max", "neg", "abs", "cvt", "setp"),
}
# Arithmetic that rounds other than to nearest. (.rni, .rzi, .rmi and .rpi make integers, which
# floor() and casts ask for.)
ROUNDED = re.compile(r"^(?:add|sub|mul|div|fma|mad|sqrt|rcp|cvt)\.(?:rz|rm|rp|rna)\b")
INEXACT = re.compile(r"\.(?:approx|full|ftz)\b|^(?:tanh|ex2|lg2|sin|cos|rsqrt)\.")
# What makes an address of another, or of an index. A product is no address.
FOLLOWED = {"add.s64", "cvta.to.global.u64", "mov.u64", "mov.b64", "selp.b64"}
WRITES = ("st.global", "atom.global", "red.global")


@dataclass
class Entry:
    """A kernel. Counts are of instructions in the text, whatever the number of iterations."""

    name: str  # mangled
    threads: int = 0  # of a block: __launch_bounds__
    arrays: int = 0  # bytes of a thread for arrays that are indexed at run time
    dynamic_shared: bool = False
    doubles: Counter[int] = field(default_factory=Counter)  # float64 operations by loop depth
    divisions: Counter[int] = field(default_factory=Counter)  # of integers, by loop depth
    fused: Counter[str] = field(default_factory=Counter)  # fused multiply-adds
    matrices: Counter[str] = field(default_factory=Counter)  # products by matrix units
    roundings: Counter[str] = field(default_factory=Counter)  # not to nearest
    inexact: Counter[str] = field(default_factory=Counter)  # approximations, subnormals flushed
    cached_reads: set[str] = field(default_factory=set)  # pointers read as constants (ld.global.nc)
    writes: set[str] = field(default_factory=set)  # pointers written to


class Instruction(NamedTuple):
    predicated: bool
    opcode: str
    operands: str


class Kind(NamedTuple):
    """What an opcode is counted as."""

    division: bool
    double: bool
    fused: bool
    matrices: bool
    rounding: bool
    inexact: bool


def parse_ptx(text: str) -> Iterator[Entry]:
    """All kernels in the output of ``cuobjdump --dump-ptx``, each with the functions it calls."""
    for module in text.split("\n.version ")[1:] or [text]:
        starts = [match.start() for match in DEFINITION.finditer(module)]
        pieces = [module[a:b] for a, b in itertools.pairwise([*starts, len(module)])]
        bodies = {_name_of(piece): piece.partition("\n{\n")[2] for piece in pieces}
        for piece in pieces:
            head = piece.partition("\n{\n")[0]
            name = _name_of(piece)
            if ".entry " not in head:
                continue
            entry = Entry(name)
            size = BLOCK_SIZE.search(head)
            if size is not None:
                x, y, z = map(int, size.groups())
                entry.threads = x * y * z
            body = "\n".join(_with_called(name, bodies))
            entry.arrays = sum(map(int, ARRAY.findall(body)))
            _read_body(entry, body)
            if "ld.global.nc" in bodies[name]:  # functions have other registers of these names
                _find_pointers(entry, _instructions(bodies[name]))
            yield entry


def _name_of(piece: str) -> str:
    found = NAME.search(piece)
    assert found is not None
    return found[1]


def _with_called(name: str, bodies: Mapping[str, str]) -> list[str]:
    """Return the bodies of a kernel and of all functions that it may call, each once."""
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        own = waiting.pop()
        if own in bodies and own not in found:
            found[own] = bodies[own]
            waiting += CALL.findall(bodies[own])
    return list(found.values())


def _read_body(entry: Entry, body: str) -> None:
    blocks: list[list[Instruction]] = [[]]
    labels: dict[str, int] = {}
    for label, predicate, opcode, operands in STATEMENT.findall(body):
        if label:
            blocks.append([])
            labels[label] = len(blocks) - 1
            continue
        blocks[-1].append(Instruction(predicate != "", opcode, operands))
        if opcode.startswith(LEAVES):
            blocks.append([])
        elif "visops_dynamic_shared" in operands:
            entry.dynamic_shared = True
    depths = loop_depths(_graph(blocks, labels))
    for number, block in enumerate(blocks):
        for instruction in block:
            opcode = instruction.opcode
            kind = _kind(opcode)
            if kind is not None:
                entry.divisions[depths[number]] += kind.division
                entry.doubles[depths[number]] += kind.double
                entry.fused[opcode] += kind.fused
                entry.matrices[opcode] += kind.matrices
                entry.roundings[opcode] += kind.rounding
                entry.inexact[opcode] += kind.inexact
    for counts in (entry.fused, entry.matrices, entry.roundings, entry.inexact):
        for opcode in [opcode for opcode, count in counts.items() if count == 0]:
            del counts[opcode]


def _instructions(body: str) -> list[Instruction]:
    found = STATEMENT.findall(body)
    return [
        Instruction(p != "", opcode, operands) for label, p, opcode, operands in found if not label
    ]


@functools.cache
def _kind(opcode: str) -> Kind | None:
    operation, *words = opcode.split(".")
    kind = Kind(
        division=operation in ("div", "rem") and words[-1] in INTEGERS,
        double=operation in DOUBLE_WORK and "f64" in words,
        fused=operation in ("fma", "mad") and words[-1] in FLOATING,
        matrices=operation in ("mma", "wmma", "wgmma"),
        rounding=ROUNDED.match(opcode) is not None,
        inexact=INEXACT.search(opcode) is not None,
    )
    return kind if any(kind) else None


def _graph(blocks: list[list[Instruction]], labels: dict[str, int]) -> dict[int, list[int]]:
    graph: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        after = [number + 1] if number + 1 < len(blocks) else []
        last = block[-1] if block else None
        if last is not None and last.opcode.startswith(LEAVES):
            if last.opcode.startswith("brx"):
                raise ValueError(f"a branch through a table is not understood: {last.operands}")
            to = [labels[last.operands]] if last.opcode.startswith("bra") else []
            after = to + (after if last.predicated else [])
        graph[number] = after
    return graph


def _find_pointers(entry: Entry, instructions: list[Instruction]) -> None:
    """Trace addresses back to the kernel's arguments, as far as additions lead.

    Registers are followed wherever they are assigned, so an address may come from several
    arguments. A pointer that the kernel reads from memory has no name here.
    """
    prefix = entry.name + "_param_"
    argument: dict[str, tuple[str, int]] = {}  # registers that hold an argument's address
    sources: dict[str, set[str]] = {}  # registers that each register is computed from
    loaded: dict[str, set[str]] = {}  # arguments that each register is loaded from
    for i in instructions:
        registers = REGISTER.findall(i.operands)
        if not registers:
            continue
        to = registers[0]
        if i.opcode == "mov.b64" and prefix in i.operands:
            argument[to] = (i.operands.rpartition(prefix)[2].strip(), 0)
        elif i.opcode == "add.s64" and len(registers) == 2 and registers[1] in argument:
            step = i.operands.rpartition(",")[2].strip()
            if step.lstrip("-").isdigit():
                number, start = argument[registers[1]]
                argument[to] = (number, start + int(step))
        elif i.opcode.startswith("ld.param") and (where := MEMORY.search(i.operands)):
            base, offset = where[1], int(where[2] or 0)
            if base in argument or base.startswith(prefix):
                number, start = argument.get(base, (base.removeprefix(prefix), 0))
                loaded.setdefault(to, set()).add(f"{number}+{start + offset}")
        elif i.opcode in FOLLOWED:
            sources.setdefault(to, set()).update(registers[1:])
    for i in instructions:
        is_cached = i.opcode.startswith("ld.global.nc")
        if (is_cached or i.opcode.startswith(WRITES)) and (where := MEMORY.search(i.operands)):
            found = _origins(where[1], sources, loaded)
            (entry.cached_reads if is_cached else entry.writes).update(found)


def _origins(register: str, sources: dict[str, set[str]], loaded: dict[str, set[str]]) -> set[str]:
    """The arguments that a register is a sum of."""
    seen, left, found = {register}, [register], set[str]()
    while left:
        at = left.pop()
        found |= loaded.get(at, set())
        new = sources.get(at, set()) - seen
        seen |= new
        left += new
    return found
