"""Borders of filter2d, and how NumPy and OpenCV name them."""

BORDERS = {
    "reflect_101": "BORDER_REFLECT_101",
    "reflect": "BORDER_REFLECT",
    "replicate": "BORDER_REPLICATE",
    "wrap": "BORDER_WRAP",
    "constant": "BORDER_CONSTANT",
}

PAD = {
    "reflect_101": "reflect",
    "reflect": "symmetric",
    "replicate": "edge",
    "wrap": "wrap",
    "constant": "constant",
}
