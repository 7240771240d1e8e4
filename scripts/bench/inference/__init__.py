"""What scripts/bench/infer.py runs: photos, networks, a simple script, and how both compare."""
