"""torch.export, AOTInductor and torch.jit.trace: one program for all sizes, with eager's bits."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from operators import CASES
from operators.case import Arguments, OpCase
from torch import Tensor, nn

from .calls import assert_same, calling_anew, every_case, sizes_of_values, tensors_of

STEPS = ("ordinary", "second", "third")
# Python makes numbers of the masks' sizes before an operator sees them, and a trace keeps those.
OF_MASKS = {"pack_masks", "mask_iou boundary", "merge_masks"}
# Torch's own code is neither vectorised nor optimised much: the operators are called all the same.
COMPILES_SOON = {
    "aot_inductor.compile_wrapper_opt_level": "O0",
    "aot_inductor.precompile_headers": False,
    "cpp.simdlen": 0,
}


class Call(nn.Module):
    """A case's function of its tensors; a program keeps all other arguments."""

    def __init__(self, case: OpCase) -> None:
        super().__init__()
        self.case = case
        arguments = case.arguments()
        self.kept = {n: v for n, v in arguments.items() if not tensors_of({n: v})}

    def forward(self, tensors: Arguments) -> list[Tensor]:
        return self.case.results({**self.kept, **tensors})


def tensors(case: OpCase, step: str) -> Arguments:
    return {n: v for n, v in case.arguments(step).items() if tensors_of({n: v})}


def is_of_any_size(case: OpCase) -> bool:
    """Whether no number among the arguments is that of a size."""
    kept = Call(case).kept
    others = [case.arguments(step) for step in STEPS[1:]]
    return all(str(arguments[n]) == str(v) for arguments in others for n, v in kept.items())


OF_ONE_SIZE = {"convolve2d im2col", "convolve2d fft"}  # which sizes choose
EXPORTED = [
    case
    for case in CASES
    if not case.skip & {*STEPS} and case.name not in OF_ONE_SIZE and is_of_any_size(case)
]
exported = pytest.mark.parametrize("case", EXPORTED, ids=str)


def dynamic_shapes(first: Any, second: Any) -> Any:
    """Return Dim.DYNAMIC wherever sizes differ."""
    if isinstance(first, Tensor):
        pairs = enumerate(zip(first.shape, second.shape, strict=True))
        return {i: torch.export.Dim.DYNAMIC for i, (a, b) in pairs if a != b}
    if isinstance(first, dict):
        return {name: dynamic_shapes(first[name], second[name]) for name in first}
    return type(first)(dynamic_shapes(a, b) for a, b in zip(first, second, strict=True))


def export(module: nn.Module, first: Any, second: Any) -> Any:
    with sizes_of_values():
        shapes = (dynamic_shapes(first, second),)
        return torch.export.export(module, (first,), dynamic_shapes=shapes)


def test_most_cases_are_exported() -> None:
    """Others return what Python makes of values, or are told sizes."""
    assert len(EXPORTED) > 0.8 * len(CASES)


@exported
def test_export(case: OpCase) -> None:
    program = export(Call(case), tensors(case, "ordinary"), tensors(case, "second")).module()
    for step in STEPS:
        given = tensors(case, step)
        assert_same(case, program(given), Call(case)(given))


class Everything(nn.Module):
    """Calls of all operators, in each way, whose bits don't depend on torch's compiler."""

    def __init__(self) -> None:
        super().__init__()
        cases = [case for case in EXPORTED if case.exact and not case.composed]
        self.calls = {str(i): Call(case) for i, case in enumerate(calling_anew(cases))}

    def tensors(self, step: str) -> dict[str, Arguments]:
        return {i: tensors(call.case, step) for i, call in self.calls.items()}

    def forward(self, given: dict[str, Arguments]) -> dict[str, list[Tensor]]:
        return {i: call(given[i]) for i, call in self.calls.items()}


def test_one_package_of_everything(tmp_path: Path) -> None:
    everything = Everything()
    program = export(everything, everything.tensors("ordinary"), everything.tensors("second"))
    package = torch._inductor.aoti_compile_and_package(
        program,
        package_path=str(tmp_path / "everything.pt2"),
        inductor_configs=COMPILES_SOON,
    )
    compiled = torch._inductor.aoti_load_package(package)
    for step in STEPS:
        given = everything.tensors(step)
        found, expected = compiled(given), everything(given)
        for i, call in everything.calls.items():
            assert_same(call.case, found[i], expected[i])


@every_case(only=lambda case: "ordinary" not in case.skip)
def test_trace(case: OpCase) -> None:
    """A trace has eager's bits for all sizes, or warns that it keeps those of its inputs."""

    class Flat(nn.Module):
        def forward(self, *values: Any) -> tuple[Tensor, ...]:
            return tuple(Call(case)(dict(zip(names, values, strict=True))))

    names = list(tensors(case, "ordinary"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = tuple(tensors(case, "ordinary").values())
        traced = torch.jit.trace(Flat(), values, check_trace=False)
    warned = any("the trace keeps the size" in str(warning.message) for warning in caught)
    of_any_size = is_of_any_size(case) and not warned and case.name not in OF_MASKS
    for step in STEPS if of_any_size else STEPS[:1]:
        given = tensors(case, step)
        expected = Call(case)(given)
        found = traced(*given.values())[: len(expected)]  # within a trace, sizes are tensors
        assert_same(case, list(found), expected)
