"""What a `Loader` is made of: order, threads, samples, batches, statistics."""
