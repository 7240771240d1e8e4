"""AOTInductor on the CPU: one package of all operators, with the bits of eager at every size."""

from pathlib import Path
from typing import Any

import torch
from roi.align_cases import same_bits
from torch import nn

from exporting.cases import CASES, dynamic_shapes, leaves
from exporting.inputs import STEPS

# Composed of torch's operators, which round as torch's compiler decides.
OF_TORCH = {
    "get_affine_matrix",
    "invert_affine",
    "compose_affine",
    "affine_from_points",
    "transform_points",
    "transform_boxes",
    "conv2d",
    "get_rotation_matrix2d",
    "similarity_from_points",
    "homography_from_points",
    "letterbox unletterbox_boxes",
    "generalized_box_iou_loss",
    "complete_box_iou_loss",
    "distance_box_iou_loss",
}
NAMES = [name for name in CASES if name not in OF_TORCH]


# Torch's own code is neither vectorised nor optimised much: the operators are called all the same.
COMPILES_SOON = {
    "aot_inductor.compile_wrapper_opt_level": "O0",
    "aot_inductor.precompile_headers": False,
    "cpp.simdlen": 0,
}


class Everything(nn.Module):
    def forward(self, *inputs: Any) -> list[Any]:
        return [CASES[name].call(*given) for name, given in zip(NAMES, inputs, strict=True)]


def inputs(step: int) -> tuple[Any, ...]:
    return tuple(tuple(CASES[name].inputs(step)) for name in NAMES)


def test_package(tmp_path: Path) -> None:
    program = torch.export.export(Everything(), inputs(0), dynamic_shapes=dynamic_shapes(inputs))
    package = torch._inductor.aoti_compile_and_package(
        program,
        package_path=str(tmp_path / "everything.pt2"),
        inductor_configs=COMPILES_SOON,
    )
    compiled = torch._inductor.aoti_load_package(package)
    for step in STEPS:
        given = inputs(step)
        for name, found, expected in zip(
            NAMES, compiled(*given), Everything()(*given), strict=True
        ):
            pairs = zip(leaves(found), leaves(expected), strict=True)
            assert all(same_bits(a, b) for a, b in pairs), f"{name}, step {step}"
