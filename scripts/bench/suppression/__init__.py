"""Peers and cases of scripts/bench/nms.py that need more than a line."""
