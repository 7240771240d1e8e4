"""What kernels are allowed beyond the rules of gates.py, by name and with the reason."""

from typing import NamedTuple


class Group(NamedTuple):
    """Kernels that one reason excuses, each with its limit."""

    reason: str
    limits: dict[str, int]


# Bytes of a thread's stack, at most.
STACK = (
    Group(
        "an array of a few numbers, indexed in a loop that isn't unrolled; once per box or element",
        {"box_columns": 48, "box_columns<double>": 40, "fold": 48, "fold<double>": 48},
    ),
    Group(
        "a few registers; divisions and their slow paths are calls, which take some",
        {
            "col2im": 16,
            "col2im<double>": 24,
            "affine_forward": 16,
            "augment_filter": 40,
            "augment_filter<double>": 64,
            "taps": 8,
            "adjust_pixels": 16,
            "prepare_adjustments": 8,
            "affine_backward_image": 8,
            "affine_backward_image_boxes": 16,
            "affine_backward_image_boxes<double>": 16,
            "augment_gather": 24,
            "augment_backward_rows": 24,
            "taps<double>": 8,
            "roi_pool": 32,
            "roi_pool<double>": 24,
            "roi_spans": 8,
            "box_iou_backward<double>": 8,
            "box_fusion": 8,
            "point_sample<double>": 24,
            "point_sum_cells<double>": 8,
            "solve_lines": 8,
            "deform_conv2d_backward_offset<double>": 24,
        },
    ),
    Group(
        "the taps of a pixel or the corners of a box, which need an index at run time",
        {
            "decode_rotated_rois<double>": 32,
        },
    ),
    Group(
        "the call for pixels that are not inside the image, whose values it leaves there",
        {
            "augment_forward": 96,
            "augment_forward<double>": 48,
            "augment_filter_rotated": 32,
            "augment_filter_rotated<double>": 96,
        },
    ),
)

# Percent of a multiprocessor's threads, at least.
OCCUPANCY = (
    Group(
        "float64 arithmetic is the limit, not memory",
        {
            "augment_samples": 18,
            "box_iou<double>": 37,
            "convolve2d<double>": 37,
            "box_iou_backward<double>": 25,
            "box_iou_rotated": 31,
            "box_iou_rotated<double>": 31,
            "box_iou_rotated_backward": 25,
            "box_iou_rotated_backward<double>": 25,
            "nms_meet<Rotated>": 25,
            "soft_nms_suppress<Rotated>": 25,
            "box_fusion": 31,
            "roi_align_rotated<double>": 25,
            "roi_align_rotated_channels<double>": 25,
            "roi_align_mean<double>": 25,
            "roi_align_max<double>": 25,
            "roi_align_max_at<double>": 25,
            "ps_roi_align<double>": 25,
            "roi_align_gather<double>": 25,
            "ps_roi_align_gather<double>": 25,
            "ps_roi_align_gather_each<double>": 25,
            "roi_align_gather_each<double>": 25,
            "roi_align_backward_boxes<double>": 25,
            "roi_align_backward_boxes_streamed<double>": 12,
            "roi_align_max_backward_boxes<double>": 25,
            "roi_align_max_gather<double>": 25,
            "roi_crops<double>": 37,
            "roi_crops_backward_boxes<double>": 25,
            "roi_paste<double>": 37,
            "roi_paste_backward<double>": 25,
            "point_slopes<double>": 37,
            "point_sum_cells<double>": 25,
            "affine_forward<double>": 25,
            "affine_backward_image<double>": 25,
            "affine_backward_image_inverse<double>": 43,
            "add_shot_noise": 25,
            "affine_backward_matrix<double>": 37,
            "augment_forward<double>": 25,
            "remap_pixels<double>": 25,
            "augment_filter_rotated<double>": 25,
            "augment_gather<double>": 25,
            "augment_gather_boxes<double>": 37,
            "augment_backward_rows<double>": 25,
            "augment_backward_rows_color<double>": 25,
        },
    ),
    Group(
        "sixteen bytes of each of four pixels",
        {"deform_conv2d_rows": 37, "deform_conv2d_rows<double>": 25},
    ),
    Group(
        "sums of eight channels, eight numbers that come, and the lists of four cells",
        {"deform_conv2d_sum_cells": 37, "deform_conv2d_sum_cells<double>": 25},
    ),
    Group(
        "a tile of products stays in registers; arithmetic is the limit",
        {
            "conv2d": 12,
            "conv2d<double>": 12,
            "conv2d_backward_weight": 25,
            "conv2d_backward_weight<double>": 25,
            "gemm_conv2d": 25,
            "gemm_conv2d_weight": 25,
        },
    ),
    Group(
        "taps of three channels, bicubic's or a grid's 16, or a filter's; arithmetic is the limit",
        {
            "affine_forward": 37,
            "augment_forward": 37,
            "augment_filter_rotated": 25,
            "remap_pixels": 25,
        },
    ),
    Group(
        "a network has the values of 7 x 7 pixels in registers; arithmetic is the limit",
        {"blur_by_median": 25},
    ),
    Group(
        "few blocks run at once, whatever fits: one warp a segment, one block a matrix",
        {
            "nms_resolve": 12,
            "nms_resolve<double>": 18,
            "nms_resolve<Rotated>": 12,
            "affine_backward_matrix_finish": 31,
            "augment_backward_finish": 18,
        },
    ),
    Group(
        "sums for 32 pixels by 128 channels in shared memory",
        {
            "roi_pool_backward": 37,
            "roi_pool_backward<double>": 37,
            "roi_align_rotated_backward": 31,
            "roi_align_rotated_backward<double>": 25,
        },
    ),
    Group(
        "for what is too large for lists: a thread finds samples for itself",
        {
            "roi_align_gather_each": 37,
            "roi_align_backward_boxes_streamed": 25,
        },
    ),
)

# Kernels whose sums promise a tolerance instead of bits: templates.
FUSED = {
    "conv2d",
    "conv2d_backward_weight",
}

# Kernels with functions that are not inlined, for pixels at the border. Those get the pointers of
# image and output by way of the stack, where the reader of PTX can't tell them apart. Fronts see to
# it that the two share no memory.
CALLS = {"affine_forward", "augment_forward"}

# How kernels are named whose products may go to matrix units.
MATRIX_UNITS = "gemm_"

# Instructions that round other than to nearest, by template.
ROUNDINGS = {
    # round() of a box's corners: half away from zero, as a truncated sum. Exact.
    "roi_pool": {"add.rz.f32", "add.rz.f64"},
    "roi_pool_regions": {"add.rz.f32", "add.rz.f64"},
    # To TF32: to nearest, and from the middle away from 0.
    "gemm_conv2d": {"cvt.rna.tf32.f32"},
    "gemm_conv2d_weight": {"cvt.rna.tf32.f32"},
}


def limit(groups: tuple[Group, ...], row: str) -> int | None:
    """The limit of a kernel; None where the rule holds without exception."""
    return next((group.limits[row] for group in groups if row in group.limits), None)
