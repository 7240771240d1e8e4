"""The rows of ``scripts/bench/gpu.py``, by family."""
