"""JPEG files: the pixels that are needed, and no others."""

from .decode import decode_jpeg

__all__ = ["decode_jpeg"]
