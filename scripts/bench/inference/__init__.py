"""What scripts/bench/infer.py runs: photos, networks, a simple script, four changes."""
