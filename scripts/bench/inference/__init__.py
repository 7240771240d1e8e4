"""What scripts/bench/infer.py runs: photos, networks, a slow script, four changes."""
