"""The options of the augmentation have the names, order and defaults of the operators' schemas."""

import pytest
import torch
from visops.warp.augment_options import SHARED, AugmentOptions


def arguments(name: str) -> list[torch.Argument]:
    return list(getattr(torch.ops.visops, name).default._schema.arguments)


@pytest.mark.parametrize("name", ["augment", "augment_list"])
def test_options_are_those_of_the_forms_that_allocate(name: str) -> None:
    options = arguments(name)[3:]  # images, matrix, size
    assert [a.name for a in options] == list(AugmentOptions._fields)
    defaults = [AugmentOptions._field_defaults[a.name] for a in options]
    assert [a.default_value for a in options] == defaults


@pytest.mark.parametrize(
    ("name", "before"), [("augment_out", 2), ("augment_list_out", 2), ("augment_backward", 3)]
)
def test_shared_options_are_those_of_the_other_forms(name: str, before: int) -> None:
    options = arguments(name)[before : before + SHARED]
    assert [a.name for a in options] == list(AugmentOptions._fields[:SHARED])
    assert not any(a.has_default_value() for a in options)


def test_vmap_takes_calls_that_leave_options_out() -> None:
    images = torch.rand(3, 2, 1, 4, 5)
    matrix = torch.eye(2, 3, dtype=torch.float64)
    op = torch.ops.visops.augment
    mapped = torch.vmap(lambda each: op(each, matrix, [4, 5]))(images)
    assert torch.equal(mapped, torch.stack([op(each, matrix, [4, 5]) for each in images]))
