"""The functions on masks; ``visops`` has these, and ``visops.masks`` the classes of results too."""

from .components import connected_components, remove_small_regions
from .distance import distance_transform
from .packed import mask_area, mask_iou, masks_to_boxes, pack_masks
from .paste import paste_masks
from .polygons import masks_to_polygons, polygons_to_masks
from .rle import masks_to_rle, rle_area, rle_iou, rle_to_boxes, rle_to_masks
from .select import mask_nms, merge_masks, stability_score

__all__ = [
    "connected_components",
    "distance_transform",
    "mask_area",
    "mask_iou",
    "mask_nms",
    "masks_to_boxes",
    "masks_to_polygons",
    "masks_to_rle",
    "merge_masks",
    "pack_masks",
    "paste_masks",
    "polygons_to_masks",
    "remove_small_regions",
    "rle_area",
    "rle_iou",
    "rle_to_boxes",
    "rle_to_masks",
    "stability_score",
]
