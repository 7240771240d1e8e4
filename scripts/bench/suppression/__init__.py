"""Peers and cases of scripts/bench/nms.py."""
