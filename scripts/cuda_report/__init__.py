"""What nvcc made of the CUDA kernels, read from the built library: no GPU is needed."""
