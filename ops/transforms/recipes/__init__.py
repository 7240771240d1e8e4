"""Chains by the names of their papers, of other libraries' chains, and what chains do."""
