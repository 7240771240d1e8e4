"""Binary masks and label maps: bits, overlaps, components and distances."""

from .components import ComponentStats, connected_components, remove_small_regions
from .distance import distance_transform
from .packed import PackedMasks, mask_area, mask_iou, masks_to_boxes, pack_masks
from .paste import paste_masks
from .select import mask_nms, merge_masks, stability_score

__all__ = [
    "ComponentStats",
    "PackedMasks",
    "connected_components",
    "distance_transform",
    "mask_area",
    "mask_iou",
    "mask_nms",
    "masks_to_boxes",
    "merge_masks",
    "pack_masks",
    "paste_masks",
    "remove_small_regions",
    "stability_score",
]
