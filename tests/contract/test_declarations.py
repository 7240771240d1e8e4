"""Every operator is declared once, where its Python is, and nothing is registered past that."""

import operator
import re
from pathlib import Path

import pytest
import torch
import visops
import visops.pixels  # declares operators, and `import visops` does not import it
from visops._torch import declaring

OPS = Path(visops.__file__).parent
REGISTERS = re.compile(
    r"torch\.library|LIBRARY\.impl|register_(fake|vmap|autocast)|Differentiable\("
)


def test_every_operator_is_declared() -> None:
    names = [n.split("::") for n in torch._C._dispatch_get_all_op_names()]
    ours = {name for namespace, name in names if namespace == "visops"}
    assert ours - declaring.DECLARED.keys() == {"build_info"}  # it takes no tensors


def test_a_second_declaration_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the operator nms is declared twice$"):
        declaring.operator("nms")


def test_what_is_no_operator_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nms_of_nothing'"):
        declaring.operator("nms_of_nothing")


def test_families_register_nothing_themselves() -> None:
    families = [p for p in OPS.rglob("*.py") if p.parent not in (OPS, OPS / "_torch")]
    assert len(families) > 100
    assert not [str(p) for p in families if REGISTERS.search(p.read_text())]


@pytest.mark.parametrize("name", declaring.DECLARED)
def test_documented_functions_exist(name: str) -> None:
    declared = declaring.DECLARED[name]
    if not declared.private or declared.documented_as != name:
        for function in declared.documented_as.split(" or "):
            assert operator.attrgetter(function)(visops).__doc__
