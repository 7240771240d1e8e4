"""The contenders of scripts/bench/loader.py."""
