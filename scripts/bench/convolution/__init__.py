"""The cases of ``scripts/bench/conv.py``: images, im2col, and network layers."""
