"""The same run over many processes: the ranks of torchrun, or the actors of Ray."""
