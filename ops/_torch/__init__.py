"""What every operator needs of torch: calls, gradients, fake kernels, vmap, arrays."""
