"""The operations on pixels: csrc/core/chain/plan.h."""

from enum import IntEnum

import torch

BY_VALUES = (torch.uint8, torch.float32)  # what operations in C++ take

MORE_NUMBERS = 9  # of an operation, behind its amount


class PixelKind(IntEnum):
    """In the order of C++."""

    IDENTITY = 0
    AFFINE = 1
    BRIGHTNESS = 2
    CONTRAST = 3
    SATURATION = 4
    SHARPNESS = 5
    POSTERIZE = 6
    SOLARIZE = 7
    AUTOCONTRAST = 8
    EQUALIZE = 9
    INVERT = 10
    GAMMA = 11
    SOLARIZE_AT = 12
    GAUSSIAN_NOISE = 13
    SHOT_NOISE = 14
    SALT_AND_PEPPER = 15
    HSV = 16
    DROP_CHANNELS = 17
    HOLES = 18
    GRID_HOLES = 19
    BOX_BLUR = 20
    GAUSSIAN_BLUR = 21
    MEDIAN_BLUR = 22
    MOTION_BLUR = 23
    UNSHARP_MASK = 24
    EMBOSS = 25
    SHARPEN = 26
    CLAHE = 27
    DOWNSCALE = 28
    SOLARIZE_ADD = 29
    JPEG = 30
    TONE_CURVE = 31
    BLEACH = 32
    ADVANCED_BLUR = 33
    ILLUMINATION = 34
    SHADOWS = 35
    MORPHOLOGY = 36
