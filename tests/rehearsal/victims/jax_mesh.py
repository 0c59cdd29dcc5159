"""Processes of JAX, and arrays that span them. Arguments: the store, steps, and where one is lost (-1: nowhere)."""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import outlast

rank, size = int(os.environ["JAX_PROCESS_ID"]), int(os.environ["JAX_NUM_PROCESSES"])
jax.config.update("jax_num_cpu_devices", int(os.environ["DEVICES"]))
if size > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(os.environ["JAX_COORDINATOR_ADDRESS"], size, rank)

rows = int(os.environ.get("ROWS", "0")) or len(jax.devices())
mesh = Mesh(np.array(jax.devices()).reshape(rows, -1), ("rows", "columns"))


def divided(value, *axes):
    """An array of which each device gets its part."""
    sharding = NamedSharding(mesh, PartitionSpec(*axes))
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])


params = {
    "w": divided(np.arange(48, dtype=np.float32).reshape(8, 6), "rows"),
    "v": divided(np.ones((4, 8), np.float32), None, "rows"),
    "scale": divided(np.ones((), np.float32)),
    "own": jnp.zeros(2),
}


@jax.jit
def update(params, step):
    """Any part needs all others."""
    mean = jnp.mean(params["w"]) + jnp.sum(params["v"])
    return {
        "w": params["w"] * 0.9 + step,
        "v": params["v"] + jnp.cos(mean),
        "scale": params["scale"] * 1.01 + mean * 1e-3,
        "own": params["own"] + step,
    }


url, steps, stop = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
job = outlast.Job(url, state={"params": params}, name="mesh", every=outlast.Steps(2))
print("from", job.resumed_from or 0, flush=True)


def told(params):
    """All of them, whole, as everybody sees them."""
    whole = {name: multihost_utils.process_allgather(value, tiled=True) for name, value in params.items()}
    return {name: np.asarray(value).ravel()[:48].tolist() for name, value in sorted(whole.items())}


print("begins", told(job.state["params"]), flush=True)
for step in job.steps(steps):
    job.state["params"] = update(job.state["params"], jnp.float32(step))
    jax.block_until_ready(job.state["params"])
    if step + 1 == stop and rank == size - 1:
        os._exit(9)
print("result", told(job.state["params"]), flush=True)
print("divided", all(value.sharding.num_devices == mesh.size for value in [job.state["params"]["w"]]), flush=True)
