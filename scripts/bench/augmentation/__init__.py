"""The cases of scripts/bench/augment.py, a module for each kind of job."""
