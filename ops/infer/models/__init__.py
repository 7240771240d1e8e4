"""Networks: loaded, run on a batch, and their outputs made into results."""
