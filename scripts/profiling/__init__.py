"""Ladders of implementations: what ``scripts/profile_conv.py`` climbs, times, profiles and draws.

`ladder` has the parts and times them, `conv` is a ladder; `profilers`, `trace`, `report` and
`plot` show where the time goes.
"""

from .ladder import Climb, Ladder, Rung, climb

__all__ = ["Climb", "Ladder", "Rung", "climb"]
