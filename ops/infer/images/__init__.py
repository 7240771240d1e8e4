"""From a folder to networks' inputs: list, decode, preprocess."""
