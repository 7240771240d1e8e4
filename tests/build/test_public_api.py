"""The public interface. A change here is a change for users: it belongs in the changelog."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
import visops  # registers the operators

# Schemas of `torch.ops.visops`, one per line, as the dispatcher prints them.
OPERATORS = Path(__file__).with_name("operators.txt").read_text().splitlines()

NAMES = {
    "visops": [
        "MultiScaleDeformableAttention",
        "MultiScaleRoIAlign",
        "PSRoIAlign",
        "RoIAlign",
        "RoIPool",
        "__version__",
        "affine_from_points",
        "augment",
        "batched_nms",
        "batched_soft_nms",
        "box_blur",
        "box_iou",
        "box_iou_rotated",
        "build_info",
        "cmake_prefix_path",
        "col2im",
        "compat",
        "complete_box_iou",
        "complete_box_iou_loss",
        "compose_affine",
        "connected_components",
        "conv2d",
        "convolve2d",
        "correlate2d",
        "crop_rois",
        "decode_jpeg",
        "distance_box_iou",
        "distance_box_iou_loss",
        "distance_transform",
        "filter2d",
        "gaussian_blur",
        "generalized_box_iou",
        "generalized_box_iou_loss",
        "get_affine_matrix",
        "get_rotation_matrix2d",
        "homography_from_points",
        "im2col",
        "invert_affine",
        "letterbox",
        "mask_area",
        "mask_iou",
        "mask_nms",
        "masks_to_boxes",
        "matrix_nms",
        "merge_masks",
        "multi_scale_deformable_attention",
        "multiscale_roi_align",
        "nms",
        "nms_match",
        "nms_padded",
        "nms_rotated",
        "non_maximum_weighted",
        "pack_masks",
        "paste_masks",
        "paste_rois",
        "ps_roi_align",
        "remove_small_regions",
        "roi_align",
        "roi_align_rotated",
        "roi_pool",
        "similarity_from_points",
        "sobel",
        "soft_nms",
        "soft_nms_rotated",
        "stability_score",
        "transform_boxes",
        "transform_points",
        "transforms",
        "unletterbox_boxes",
        "warp_affine",
        "warp_perspective",
        "weighted_boxes_fusion",
        "weighted_boxes_fusion_1d",
        "weighted_boxes_fusion_3d",
    ],
    "visops.transforms": [
        "Canvas",
        "CenterCrop",
        "ClampBoundingBoxes",
        "ColorJitter",
        "Compose",
        "ConvertBoundingBoxFormat",
        "CutMix",
        "DecodeJpeg",
        "Effects",
        "Grayscale",
        "ImageOnly",
        "IndexedDataset",
        "Letterbox",
        "MixUp",
        "Mosaic",
        "Normalize",
        "Pad",
        "Parameters",
        "Plan",
        "RandAugment",
        "RandomAffine",
        "RandomApply",
        "RandomAugment",
        "RandomChoice",
        "RandomCrop",
        "RandomErasing",
        "RandomGrayscale",
        "RandomHorizontalFlip",
        "RandomOrder",
        "RandomPerspective",
        "RandomPhotometricDistort",
        "RandomResize",
        "RandomResizedCrop",
        "RandomRotation",
        "RandomShortestSize",
        "RandomVerticalFlip",
        "RandomZoomOut",
        "Resize",
        "SanitizeBoundingBoxes",
        "ScaleJitter",
        "ToDtype",
        "Transform",
        "TrivialAugment",
        "TrivialAugmentWide",
        "preview",
        "visible",
    ],
    "visops.infer": [
        "Auto",
        "Classification",
        "Commit",
        "Counts",
        "Decoder",
        "Detection",
        "Entry",
        "IMAGENET_MEAN",
        "IMAGENET_STD",
        "Job",
        "Model",
        "Options",
        "Pipeline",
        "Placement",
        "Plan",
        "PlannedBatch",
        "PostProcess",
        "Preprocess",
        "Raw",
        "Regions",
        "Segmentation",
        "StageError",
        "StageTimes",
        "Summary",
        "keep_freed_memory",
        "list_images",
        "load_model",
        "load_models",
        "run",
        "run_lengths",
    ],
    "visops.onnx": ["translation_table"],
    "visops.compat": [
        "MSDeformAttn",
        "MultiScaleDeformableAttnFunction",
        "RoIAlign",
        "affine_opencv",
        "affine_torch",
        "batched_nms",
        "get_compiler_version",
        "get_compiling_cuda_version",
        "ms_deform_attn_backward",
        "ms_deform_attn_forward",
        "multi_scale_deformable_attn_pytorch",
        "nms",
        "roi_align",
        "soft_nms",
    ],
}


@pytest.mark.parametrize("module", NAMES)
def test_names(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(found.__all__) == NAMES[module]
    missing = [name for name in found.__all__ if not hasattr(found, name)]
    assert not missing


def test_operators() -> None:
    names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("visops::")]
    found = [str(s) for n in names for s in torch._C._jit_get_schemas_for_operator(n)]
    # Parse and print the listed ones too: torch versions may print defaults differently.
    assert sorted(found) == sorted(str(torch._C.parse_schema(line)) for line in OPERATORS)
    assert sorted(OPERATORS) == OPERATORS
    assert all(hasattr(torch.ops.visops, name.removeprefix("visops::")) for name in names)


def test_second_names() -> None:
    assert visops.transforms.RandomAugment is visops.transforms.RandAugment
    assert visops.transforms.TrivialAugmentWide is visops.transforms.TrivialAugment
