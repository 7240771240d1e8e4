"""torch.compile: results and gradients in one graph for every size, with the bits of eager mode."""

from typing import Any

import torch
from operators.case import Arguments, OpCase
from torch import Tensor

from .calls import assert_same, every_case, gradients, sizes_of_values, with_leaves


def program(case: OpCase, backend: str, dynamic: bool) -> Any:
    """Return the compiled function, with something around it that is traced."""
    torch._dynamo.reset()

    def call(arguments: Arguments) -> list[Tensor]:
        return [result * 1 for result in case.results(arguments)]

    return torch.compile(call, fullgraph=True, dynamic=dynamic, backend=backend)


def assert_compiles(case: OpCase, compiled: Any, arguments: Arguments) -> None:
    given, leaves = with_leaves(case, arguments)
    found = compiled(given)
    found += gradients(found, leaves)
    given, leaves = with_leaves(case, arguments)
    expected = [result * 1 for result in case.results(given)]
    assert_same(case, found, expected + gradients(expected, leaves))


@every_case(only=lambda case: case.compiled)
def test_one_program_for_all_sizes(case: OpCase) -> None:
    with sizes_of_values():
        compiled = program(case, "aot_eager", dynamic=True)
        few = ("single", "nothing") if case.counted else ()
        for i, size in enumerate(("ordinary", "second", "third", *few)):
            if size in case.skip:
                continue
            with torch._dynamo.config.patch(error_on_recompile=i > 0):
                assert_compiles(case, compiled, case.arguments(size))


@every_case(only=lambda case: case.compiled)
def test_a_program_for_one_size(case: OpCase) -> None:
    """Without symbols; dynamo alone, and after it the tracing of operators."""
    with sizes_of_values():
        for backend in ("eager", "aot_eager"):
            compiled = program(case, backend, dynamic=False)
            assert_compiles(case, compiled, case.arguments("second"))
