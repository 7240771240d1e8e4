"""Cases of bench/masks.py on COCO's run lengths."""
