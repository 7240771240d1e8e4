"""Runs on a Ray cluster: the public names of :mod:`visops.infer.cluster`."""

from .cluster.ray_engine import Pools, run_ray

__all__ = ["Pools", "run_ray"]
