"""The one-pass augmentation against torchvision, albumentations, kornia and OpenCV.

Every table names its job. In "by hand" rows all do one interpolation, a colour matrix, a clamp and
a normalisation. In "transforms" rows the peers run their own classes, at fixed parameters; "visops"
is our operator with the parameters prepared, "visops.transforms" all of the chain, Python included.
Peers get what they like best: torchvision pixels that are HWC in memory, kornia a plain sequence,
PIL its own images, albumentations no checks of shapes. All photos are uint8, three channels, and
all results are collated. Chains in which peers round and interpolate several times run on pictures
without fine detail, so that results can be compared; the rest runs on white noise, and what
begins with JPEG files on real photos.
"""

from bench.augmentation import (
    alphabet,
    batches,
    chains,
    jpeg,
    one_warp,
    ragged,
)
from bench.harness import Case


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    cases = [
        *one_warp.cases(),
        *chains.cases(),
        *chains.class_cases(),
        *ragged.cases(),
        *jpeg.cases(),
        *one_warp.gradient_cases(),
        *one_warp.other_cases(),
        *alphabet.cases(),
    ]
    return [*cases, *one_warp.gradient_cases("cuda"), *batches.cases()]
