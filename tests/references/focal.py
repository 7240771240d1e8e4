"""The sigmoid focal loss as its definition reads: Python loops in float64."""

import math

import numpy as np


def loss(x: float, t: float, alpha: float, gamma: float) -> float:
    p, q = 1 / (1 + math.exp(-x)), 1 / (1 + math.exp(x))
    weight = alpha * t + (1 - alpha) * (1 - t) if alpha >= 0 else 1.0
    wrong = p * (1 - t) + q * t
    entropy = t * math.log1p(math.exp(-x)) + (1 - t) * math.log1p(math.exp(x))
    return weight * wrong**gamma * entropy


def losses(inputs: np.ndarray, targets: np.ndarray, alpha: float, gamma: float) -> np.ndarray:
    """Targets are numbers, or the classes of rows."""
    if targets.ndim < inputs.ndim:
        targets = targets[..., None] == np.arange(inputs.shape[-1])
    out = np.zeros(inputs.shape)
    for i in np.ndindex(*inputs.shape):
        out[i] = loss(float(inputs[i]), float(targets[i]), alpha, gamma)
    return out
