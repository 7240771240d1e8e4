"""Masks, boxes and key points that follow their image."""
