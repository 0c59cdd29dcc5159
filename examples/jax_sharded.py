"""Train on handwritten digits with JAX on four devices; the run survives being interrupted at any moment.

The devices are the CPU's here, so that it runs everywhere. Weights and Adam's moments are split over a mesh, batches
over the same axis. The lines marked with an arrow are all that outlast needs.
Needs: pip install 'outlast[jax]' scikit-learn
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")  # before JAX begins

import hashlib
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

import outlast  # <-- 1

# Devices that wait for one another on fewer cores must not run ahead of one another.
jax.config.update("jax_cpu_enable_async_dispatch", False)

STEPS = 1500
BATCH = 64
MESH = Mesh(np.array(jax.devices()), ("shards",))


def split(value, *axes):
    """The value on all devices, each dimension split as told."""
    return jax.device_put(value, NamedSharding(MESH, PartitionSpec(*axes)))


def new_weights(key):
    """Two layers; the wide dimension is split."""
    first, second = jax.random.split(key)
    return {
        "first": split(jax.random.normal(first, (64, 256)) * 0.1, None, "shards"),
        "second": split(jax.random.normal(second, (256, 10)) * 0.1, "shards", None),
    }


def loss_of(weights, images, labels):
    """The mean loss of a batch."""
    scores = jax.nn.relu(images @ weights["first"]) @ weights["second"]
    return -jnp.mean(jax.nn.log_softmax(scores)[jnp.arange(len(labels)), labels])


@jax.jit
def train_step(train, images, labels):
    """One step of Adam; everything that it changes is in `train`."""
    loss, slopes = jax.value_and_grad(loss_of)(train["weights"], images, labels)
    count = train["count"] + 1
    mean = jax.tree.map(lambda old, slope: 0.9 * old + 0.1 * slope, train["mean"], slopes)
    square = jax.tree.map(lambda old, slope: 0.999 * old + 0.001 * slope**2, train["square"], slopes)
    weights = jax.tree.map(
        lambda weight, m, s: weight - 1e-3 * (m / (1 - 0.9**count)) / (jnp.sqrt(s / (1 - 0.999**count)) + 1e-8),
        train["weights"],
        mean,
        square,
    )
    return {"weights": weights, "mean": mean, "square": square, "count": count}, loss


def main():
    """Train, measure, and write jax-result.json."""
    digits = load_digits()
    images, labels = np.float32(digits.data / 16.0), digits.target
    order = np.random.default_rng(7)
    weights = new_weights(jax.random.key(7))
    zeros = jax.tree.map(jnp.zeros_like, weights)
    train = {"weights": weights, "mean": zeros, "square": jax.tree.map(jnp.copy, zeros), "count": jnp.zeros((), int)}

    job = outlast.Job(state={"train": train, "order": order}, every="1s")  # <-- 2
    for _step in job.steps(STEPS):  # <-- 3
        chosen = 360 + order.integers(len(images) - 360, size=BATCH)
        batch = split(images[chosen], "shards"), split(labels[chosen], "shards")
        new, loss = train_step(job.state["train"], *batch)
        job.state["train"].update(new)  # <-- 4: JAX makes new arrays; the state names them
        job.log(loss=loss)  # <-- 5

    weights = job.state["train"]["weights"]
    scores = jax.nn.relu(images[:360] @ weights["first"]) @ weights["second"]
    accuracy = float(np.mean(np.argmax(np.asarray(scores), axis=1) == labels[:360]))
    data = b"".join(np.asarray(one).tobytes() for one in jax.tree.leaves(weights))
    result = {"accuracy": accuracy, "weights_sha256": hashlib.sha256(data).hexdigest()}
    Path("jax-result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"test accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
