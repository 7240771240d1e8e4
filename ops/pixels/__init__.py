"""Pixel operations: values that no matrix expresses."""

from .adjust import adjust_pixels
from .grey_means import add_grey_means

__all__ = ["add_grey_means", "adjust_pixels"]
