"""Losses of dense detectors."""

from .focal import sigmoid_focal_loss

__all__ = ["sigmoid_focal_loss"]
