"""Ladders of implementations: what ``scripts/profile_op.py`` climbs, times, profiles and draws.

`ladder` has the parts and times them, `conv`, `affine`, `nms` and `roi_align` are the ladders;
`profilers`, `trace`, `report` and `plot` show where the time goes.
"""

from .ladder import Climb, Ladder, Rung, climb

__all__ = ["Climb", "Ladder", "Rung", "climb"]
