"""torch.export: one program of every function for all sizes and counts, with the bits of eager."""

import pytest
import torch
import visops
from roi.align_cases import same_bits
from torch._dynamo.testing import CompileCounter

from exporting.cases import CASES, Call, dynamic_shapes, leaves
from exporting.inputs import STEPS, suppressed

# Public names that are no operators.
NOT_CALLED = {"__version__", "build_info", "cmake_prefix_path", "compat", "transforms"}
NOT_EXPORTED = {
    "decode_jpeg",  # reads files
    *("masks_to_rle", "rle_to_masks", "rle_area", "rle_iou", "polygons_to_masks"),  # text and lists
    "nms_match",  # its operator is
    "sample_points_by_uncertainty",  # draws numbers
}


def test_every_public_name_has_a_case() -> None:
    covered = {name for case in CASES.values() for name in case.names}
    assert covered | NOT_CALLED | NOT_EXPORTED == set(visops.__all__)


@pytest.mark.parametrize("name", CASES)
def test_export(name: str) -> None:
    case = CASES[name]
    program = torch.export.export(
        Call(case.call), case.inputs(0), dynamic_shapes=dynamic_shapes(case.inputs)
    ).module()
    for step in STEPS:
        inputs = case.inputs(step)
        found, expected = leaves(program(*inputs)), leaves(case.call(*inputs))
        assert len(found) == len(expected)
        assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


def test_a_list_of_unknown_length_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"visops\.nms_match: .* export torch\.ops\.visops\.nms"):
        torch.export.export(Call(lambda b, s: visops.nms_match(b, s, 0.5)), suppressed(0)[:2])


@pytest.mark.parametrize("strict", [False, True])
def test_numbers_that_depend_on_sizes(strict: bool) -> None:
    """A program of letterboxes and matrices for all sizes, however it is traced."""
    case = next(case for case in CASES.values() if case.names[0] == "letterbox")
    shapes = dynamic_shapes(case.inputs)
    program = torch.export.export(
        Call(case.call), case.inputs(0), dynamic_shapes=shapes, strict=strict
    ).module()
    for step in STEPS:
        found, expected = leaves(program(*case.inputs(step))), leaves(case.call(*case.inputs(step)))
        assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


def test_sizes_compile_once() -> None:
    """The first graph is of one size, the second of all; angles may change too."""
    case = next(case for case in CASES.values() if case.names[0] == "letterbox")
    counter = CompileCounter()

    def call(images: torch.Tensor, boxes: torch.Tensor) -> object:
        turned = visops.get_affine_matrix((1.0, 2.0), images.shape[-1] * 2.5, shear=(0.0, 1.0))
        return case.call(images, boxes), turned

    torch._dynamo.reset()
    compiled = torch.compile(call, backend=counter, fullgraph=True)
    for size in range(20, 32):
        images = torch.rand(1, 3, size, 2 * size + 1)
        boxes = torch.rand(size, 4)
        found, expected = leaves(compiled(images, boxes)), leaves(call(images, boxes))
        assert all(same_bits(a, b) for a, b in zip(found[:-1], expected[:-1], strict=True))
        torch.testing.assert_close(found[-1], expected[-1], rtol=1e-14, atol=1e-14)
    assert counter.frame_count == 2
