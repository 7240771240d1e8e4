"""One rank of a run, which tests start with `torchrun`. Given a marker, rank 1 dies once."""

import os
import sys

from visops.infer.cluster.distributed import run_rank

from infer.networks import Small, pipeline

if __name__ == "__main__":
    images, out, *marker = sys.argv[1:]
    dies = marker and os.environ["RANK"] == "1"
    network = Small(marker[0] if dies else None, after=2)
    sys.exit(run_rank(pipeline(network), images, out).exit_code)
