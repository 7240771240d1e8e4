"""What is on the disk: the plan, manifests, parts, results and the summary."""
