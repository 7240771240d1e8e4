"""Moves masks, boxes and key points with their image."""
