"""Cases of scripts/bench/deformable.py that are no attention."""
