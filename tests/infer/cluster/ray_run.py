"""Runs on a Ray cluster of two nodes, in which a worker or a node is killed.

Tests start it as a process: Ray takes ports, sockets with short names and shared memory, and some
of its processes may survive an error. All of that ends with this process and its folder.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster
from visops.infer import StageError
from visops.infer.cluster.ray_engine import run_ray

from infer.networks import Small, pipeline

NODE: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 80 << 20}
# Notice a lost node after seconds, not after half a minute.
HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 5,
}


def main(kind: str, images: str, out: str) -> dict[str, Any]:
    """Do one run; return what the test checks."""
    head = {**NODE, "include_dashboard": False, "_system_config": HEALTH}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    second = cluster.add_node(**NODE)
    ray.init(address=cluster.address, log_to_driver=False)
    while ray.cluster_resources().get("CPU", 0.0) < 4:
        time.sleep(0.1)
    marker = f"{out}.marker"
    networks = 1 if kind == "batch" else 2
    try:
        if kind == "worker":
            network = Small(marker, after=1)
        elif kind == "batch":
            network = Small(white=True)
        else:
            network = Small(seconds=0.3)
            killer = threading.Thread(
                target=remove, args=(cluster, second, f"{out}/manifest.jsonl", marker), daemon=True
            )
            killer.start()
        summary = run_ray(pipeline(network), images, out, decoders=1, networks=networks, writers=1)
        return {
            "exit": summary.exit_code,
            "done": summary.done,
            "pending": summary.pending,
            "killed": os.path.exists(marker),
            "arenas": Path(marker).read_text() if kind == "worker" else None,
            "alive": sum(node["Alive"] for node in ray.nodes()),
            "images": {stage.name: stage.images for stage in summary.stages},
        }
    except StageError as error:
        return {"error": str(error)}
    finally:
        ray.shutdown()
        cluster.shutdown()


def remove(cluster: Cluster, node: Any, manifest: str, marker: str) -> None:
    """Remove a node once batches are being committed."""
    while not (os.path.exists(manifest) and os.path.getsize(manifest)):
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)
    Path(marker).touch()


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
