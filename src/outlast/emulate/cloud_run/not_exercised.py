"""What a run in the emulator does not show about Cloud Run itself."""

NOT_EXERCISED = (
    "the buckets: folders stand for them, in which a file is whole and durable as it is written, folders can be "
    "renamed, and two writers do not get in each other's way",
    "the limits of CPU and memory: the files of a container are on this machine's disk, and count against no memory",
    "the GPU: whether a task has one decides only whether maintenance ends it or moves it",
    "the image: its files are copied from a folder, and beside them a task sees this machine's",
    "the network, the service account and its rights, quotas, the time that a container takes to start",
)
