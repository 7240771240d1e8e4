"""scripts/cuda_report: faults in object code and PTX are found, and named with their kernel."""

from collections import Counter
from pathlib import Path

import pytest
from cuda_report import page
from cuda_report.dump import NotReadableError, Resources, find_cuobjdump, parse_resources
from cuda_report.gates import (
    arithmetic_findings,
    launch_findings,
    resource_findings,
    unused_limits,
)
from cuda_report.kernels import (
    Kernel,
    Library,
    demangled,
    file_of,
    join,
    short_name,
    source_files,
)
from cuda_report.loops import loop_depths
from cuda_report.occupancy import occupancy
from cuda_report.ptx import Entry, parse_ptx

NAMESPACE = "_GLOBAL__N__7e70aa69_14_pool_kernel_cu_0cc4d121_1322"
NAME = f"_ZN6visops{len(NAMESPACE)}{NAMESPACE}3addEPKfPf"

# Sums of a row of `a` into b: rows in a loop, columns in a loop within it.
PTX = """
Fatbin ptx code:
================
.version 9.0
.extern .shared .align 16 .b8 visops_dynamic_shared[];

.entry NAME(
.param .u64 NAME_param_0,
.param .align 8 .b8 NAME_param_1[16]
)
.maxntid 64, 2, 1
{
.local .align 8 .b8 __local_depot0[40];
.reg .pred %p<3>;

mov.b64 %rd9, NAME_param_1;
ld.param.u64 %rd1, [NAME_param_0];
ld.param.u64 %rd2, [%rd9+8];
cvta.to.global.u64 %rd3, %rd2;
add.rn.f64 %fd1, %fd1, %fd1;
$L__BB0_1:
div.s64 %rd5, %rd6, %rd7;
add.rn.f64 %fd1, %fd1, %fd1;
$L__BB0_2:
shl.b64 %rd8, %rd5, 2;
add.s64 %rd10, %rd1, %rd8;
ld.global.nc.f32 %f1, [%rd10+4];
add.rn.f32 %f2, %f2, %f1;
{
.reg .b64 %tmp;
rem.u32 %r1, %r2, %r3;
}
@%p1 bra $L__BB0_2;

add.s64 %rd11, %rd3, %rd8;
st.global.f32 [%rd11], %f2;
@!%p2 bra $L__BB0_1;
bra.uni $L__BB0_3;
$L__BB0_3:
ret;

}
""".replace("NAME", NAME)

RESOURCES = f"""
Fatbin elf code:
================
arch = sm_80

Resource usage:
 Common:
  GLOBAL:0
 Function {NAME}:
  REG:40 STACK:48 SHARED:96 LOCAL:0 CONSTANT[0]:520 TEXTURE:0 SURFACE:0 SAMPLER:0

Fatbin elf code:
================
arch = sm_90a

Resource usage:
 Function {NAME}:
  REG:38 STACK:0 SHARED:1120 LOCAL:8 CONSTANT[0]:520 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def entry_of(ptx: str = PTX) -> Entry:
    (entry,) = parse_ptx(ptx)
    return entry


def kernel(
    name: str = "add",
    entry: Entry | None = None,
    stack: int = 0,
    registers: int = 32,
    shared: int = 0,
) -> Kernel:
    resources = {80: Resources(registers, stack, shared)}
    return Kernel(name, "csrc/cuda/x.cu", entry or Entry(NAME, threads=256), resources)


def library(*kernels: Kernel) -> Library:
    return Library("13.0.88", list(kernels))


def test_resources() -> None:
    assert parse_resources(RESOURCES) == {
        NAME: {80: Resources(40, 48, 96), 90: Resources(38, 8, 96)}
    }


def test_ptx_of_a_kernel() -> None:
    entry = entry_of()
    assert (entry.name, entry.threads, entry.arrays) == (NAME, 128, 40)
    assert not entry.dynamic_shared
    assert +entry.doubles == Counter({0: 1, 1: 1})
    assert +entry.divisions == Counter({1: 1, 2: 1})
    assert (entry.fused, entry.matrices, entry.roundings, entry.inexact) == (Counter(),) * 4
    assert (entry.cached_reads, entry.writes) == ({"0+0"}, {"1+8"})
    assert arithmetic_findings([kernel("add", entry)]) == []


def test_functions_count_where_they_are_called() -> None:
    """Before or after the kernel, one through another; what it doesn't call is another's."""
    function = """
.func (.param .b32 func_retval0) {name}(
.param .b64 {name}_param_0
)
{{
fma.rn.f32 %f1, %f1, %f1;
{call}
}}
"""
    call = "call.uni (retval0), \n{name}, \n(\nparam0\n);"
    inner = function.format(name="inner", call="")
    outer = function.format(name="outer", call=call.format(name="inner"))
    calling = PTX.replace("ret;", call.format(name="outer") + "\nret;", 1)
    head = "\n.version 9.0\n"
    for text in (
        calling + outer + inner,
        calling.replace(head, head + inner + outer),
        calling.replace(head, head + ".func outer\n(\n);\n" + inner) + outer,
    ):
        assert entry_of(text).fused == Counter({"fma.rn.f32": 2})
    for text in (PTX + inner, PTX.replace(head, head + inner), calling + inner):
        assert entry_of(text).fused == Counter()


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [
        ("add.rn.f32 %f2,", "fma.rn.f32 %f2, %f2,", "fused multiply-adds: fma.rn.f32"),
        ("add.rn.f32 %f2,", "@%p1 mad.f64 %f2, %f2,", "fused multiply-adds: mad.f64"),
        ("add.rn.f32", "add.rz.f32", "rounds other than to nearest: add.rz.f32"),
        ("add.rn.f32", "cvt.rp.f32.f64", "rounds other than to nearest: cvt.rp.f32.f64"),
        ("add.rn.f32", "add.rn.ftz.f32", "approximate arithmetic: add.rn.ftz.f32"),
        ("add.rn.f32", "div.full.f32", "approximate arithmetic: div.full.f32"),
        ("add.rn.f32 %f2,", "ex2.approx.f32 %f2,", "approximate arithmetic: ex2.approx.f32"),
        # The second argument is read as constant and written.
        (
            "add.s64 %rd10, %rd1,",
            "add.s64 %rd10, %rd2,",
            "reads memory as constant (ld.global.nc) that it writes:"
            " the pointer at argument+byte 1+8",
        ),
    ],
)
def test_arithmetic_that_is_not_allowed(before: str, after: str, finding: str) -> None:
    assert before in PTX
    entry = entry_of(PTX.replace(before, after))
    assert arithmetic_findings([kernel("add", entry)]) == [f"add: {finding}"]


def test_rounding_to_integers_is_allowed() -> None:
    entry = entry_of(PTX.replace("add.rn.f32 %f2, %f2, %f1", "cvt.rmi.f32.f32 %f2, %f1"))
    assert arithmetic_findings([kernel("add", entry)]) == []


def test_kernels_named_in_the_limits_may() -> None:
    fused = Entry(NAME, fused=Counter({"fma.rn.f32": 64}))
    assert arithmetic_findings([kernel("conv2d<float>", fused)]) == []
    assert arithmetic_findings([kernel("conv2d_fused", fused)]) != []
    truncated = Entry(NAME, roundings=Counter({"add.rz.f32": 4}))
    assert arithmetic_findings([kernel("roi_pool<float>", truncated)]) == []


def test_matrix_units_are_for_kernels_of_that_name() -> None:
    """Inline assembly is read too."""
    call = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2}, {%r1}, {%r2}, {%f1, %f2}"
    entry = entry_of(PTX.replace("add.rn.f32 %f2, %f2, %f1", call))
    assert entry.matrices == Counter({call.split()[0]: 1})
    assert arithmetic_findings([kernel("gemm_tile<float>", entry)]) == []
    (finding,) = arithmetic_findings([kernel("tile<float>", entry)])
    assert finding == f"tile<float>: matrix units: {call.split()[0]}"


def test_branches_through_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="a branch through a table is not understood"):
        entry_of(PTX.replace("bra.uni $L__BB0_3;", "brx.idx %r1, $L_brx_0;"))


def test_dynamic_shared_memory_must_be_known() -> None:
    ptx = PTX.replace("ret;", "mov.b64 %rd20, visops_dynamic_shared;\nret;")
    entry = entry_of(ptx)
    assert entry.dynamic_shared
    assert launch_findings([kernel("add", entry)]) == [
        "add: uses dynamic shared memory, not in DYNAMIC_SHARED"
    ]
    assert launch_findings([kernel("convolve2d<float>", entry)]) == []


def test_launches_that_fail_or_are_unbounded() -> None:
    assert launch_findings([kernel("add", Entry(NAME))]) == ["add: has no __launch_bounds__"]
    assert launch_findings([kernel(shared=49152)]) == []
    assert launch_findings([kernel(shared=49153)]) == [
        "add: 49153 bytes of shared memory on sm_80, static and dynamic; more than 49152 must be"
        " asked for"
    ]
    assert launch_findings([kernel("roi_align_mean<float, true>", shared=32768)]) != []
    assert launch_findings([kernel("roi_align_mean<float, false>", shared=32768)]) == []


def test_a_new_spill_is_named() -> None:
    assert resource_findings(library(kernel(), kernel("add<double>"))) == []
    spilled = kernel("sum<float>", Entry(NAME, threads=256, arrays=16), stack=24)
    assert resource_findings(library(kernel("sum<Half>"), spilled)) == [
        "sum: 24 bytes of stack a thread, 8 of them spilled; allowed are 0 (sum<float>)"
    ]


def test_stack_beyond_an_exception_is_named() -> None:
    assert resource_findings(library(kernel("fold<float>", stack=48))) == []
    (finding,) = resource_findings(library(kernel("fold<float>", stack=56)))
    assert finding.startswith("fold: 56 bytes of stack a thread")


def test_low_occupancy_is_named() -> None:
    assert resource_findings(library(kernel(registers=64))) == []
    assert resource_findings(library(kernel("sum<int>", registers=72))) == [
        "sum: occupancy 37 % on sm_80, must be 50 (sum<int>, 72 registers)"
    ]
    assert resource_findings(library(kernel("roi_align_gather_each<float>", registers=80))) == []
    assert resource_findings(library(kernel("roi_align_gather_each<float>", registers=81))) != []


def test_exceptions_that_nobody_needs_are_named() -> None:
    found = unused_limits(library(kernel("fold<float>"), kernel("roi_align_gather_each<float>")))
    assert "limits.STACK names fold, which has no stack" in found
    assert "limits.OCCUPANCY names roi_align_gather_each, which has 50 %" in found
    assert "limits.STACK names box_columns, which is no kernel" in found


# By hand, from the guide's tables.
@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "expected"),
    [
        (80, 256, 32, 0, 1.0),
        (80, 256, 33, 0, 0.75),  # 6 blocks: 40 registers a thread
        (80, 128, 255, 0, 0.125),
        (80, 32, 16, 0, 0.5),  # 32 blocks at most
        (80, 256, 32, 49152, 0.375),
        (90, 256, 32, 49152, 0.5),
        (90, 1024, 64, 0, 0.5),
        (90, 1024, 65, 0, 0.0),  # does not start
        (86, 256, 40, 0, 1.0),
        (89, 32, 16, 0, 0.5),
    ],
)
def test_occupancy(arch: int, threads: int, registers: int, shared: int, expected: float) -> None:
    assert occupancy(arch, threads, registers, shared) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("graph", "depths"),
    [
        ({0: [1], 1: []}, [0, 0]),
        ({0: [0]}, [1]),
        ({0: [1], 1: [1, 2], 2: []}, [0, 1, 0]),
        ({0: [1], 1: [2], 2: [2, 3], 3: [1, 4], 4: []}, [0, 1, 2, 1, 0]),
        ({0: [1], 1: [2], 2: [3], 3: [3, 2, 4], 4: [1]}, [0, 1, 2, 3, 1]),
        ({0: [1, 2], 1: [1, 3], 2: [2, 3], 3: []}, [0, 1, 1, 0]),
        ({0: [1, 2], 1: [2, 3], 2: [1], 3: []}, [0, 1, 1, 0]),  # entered in two places
        ({0: [1, 2], 1: [0], 2: []}, [1, 1, 0]),  # begins with a loop
    ],
)
def test_loop_depths(graph: dict[int, list[int]], depths: list[int]) -> None:
    assert list(loop_depths(graph).values()) == depths


def test_names() -> None:
    assert short_name(demangled(NAME)) == "add"
    shown = "void visops::(anonymous namespace)::add<visops::Half, (visops::Mode)2>(float*, int)"
    assert short_name(shown) == "add<Half, (Mode)2>"
    assert demangled("main") == "main"
    (joined,) = join(parse_resources(RESOURCES), [entry_of()], {"pool_kernel_cu": ["pool.cu"]})
    assert (joined.name, joined.file, joined.stack, joined.spilled) == ("add", "pool.cu", 48, 8)


def test_files_of_the_same_name() -> None:
    """A kernel is in the file that defines it, of those in several families."""
    files = source_files()["conv2d_kernel_cu"]
    assert len(files) == 2
    assert file_of("conv2d<double>", files) == "csrc/cuda/convolution/conv2d_kernel.cu"
    assert file_of("deform_conv2d_rows<Half>", files) == "csrc/cuda/deformable/conv2d_kernel.cu"


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("site.getsitepackages", list)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(NotReadableError, match="cuobjdump was not found"):
        find_cuobjdump()
    installed = tmp_path / "nvidia" / "cu13" / "bin" / "cuobjdump"
    for position in (installed, tmp_path / "bin" / "cuobjdump"):
        position.parent.mkdir(parents=True)
        position.write_text("#!/bin/sh\n")
        position.chmod(0o755)
        assert find_cuobjdump() == position


def test_the_page_names_its_build() -> None:
    made = page.page_of(
        library(kernel("fold<float>", Entry(NAME, threads=256, arrays=40), stack=48))
    )
    assert page.compiled_by(made) == ("13.0.88", "sm_80")
    assert page.same_build(library(kernel()), made)
    assert not page.same_build(Library("12.8.93", [kernel()]), made)
    assert "| `fold` | x.cu | 1 | 256 | 32 | 40 + 8 |  | 100 % |  |  |" in made
