"""Connected components by flood fill, pixel by pixel in raster order."""

import numpy as np

FOUR = ((-1, 0), (0, -1), (0, 1), (1, 0))
EIGHT = (*FOUR, (-1, -1), (-1, 1), (1, -1), (1, 1))


def connected_components(mask: np.ndarray, connectivity: int = 8) -> tuple[np.ndarray, int]:
    """Labels and how many there are, of one mask or label map [H, W]."""
    height, width = mask.shape
    labels = np.zeros((height, width), np.int32)
    found = 0
    for start in np.ndindex(height, width):
        if mask[start] == 0 or labels[start]:
            continue
        found += 1
        labels[start] = found
        pending = [start]
        while pending:
            y, x = pending.pop()
            for dy, dx in FOUR if connectivity == 4 else EIGHT:
                at = y + dy, x + dx
                inside = 0 <= at[0] < height and 0 <= at[1] < width
                if inside and not labels[at] and mask[at] == mask[start]:
                    labels[at] = found
                    pending.append(at)
    return labels, found


def statistics(
    labels: np.ndarray, count: int
) -> tuple[list[int], list[list[int]], list[list[float]]]:
    """Areas, boxes (x1, y1, x2, y2; the last two exclusive) and centroids (x, y) of each label."""
    areas, boxes, centroids = [], [], []
    for label in range(1, count + 1):
        pixels = [(y, x) for y, x in np.ndindex(*labels.shape) if labels[y, x] == label]
        rows, columns = [y for y, _ in pixels], [x for _, x in pixels]
        areas.append(len(pixels))
        if not pixels:
            boxes.append([0] * 4)
            centroids.append([0.0, 0.0])
            continue
        boxes.append([min(columns), min(rows), max(columns) + 1, max(rows) + 1])
        centroids.append([sum(columns) / len(pixels), sum(rows) / len(pixels)])
    return areas, boxes, centroids


def remove_small_regions(
    mask: np.ndarray, min_area: int, mode: str, connectivity: int = 8
) -> np.ndarray:
    """One mask [H, W] with small holes filled, or without small islands."""
    inside = mask != 0
    regions, count = connected_components(~inside if mode == "holes" else inside, connectivity)
    areas = [int(np.sum(regions == label)) for label in range(1, count + 1)]
    small = [label for label in range(1, count + 1) if areas[label - 1] < min_area]
    if mode == "islands" and len(small) == count and count:
        small.remove(areas.index(max(areas)) + 1)
    result = inside.copy()
    for label in small:
        result[regions == label] = mode == "holes"
    return result
