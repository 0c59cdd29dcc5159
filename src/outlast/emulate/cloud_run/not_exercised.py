"""What a run in the emulator does not show about Cloud Run itself."""

NOT_EXERCISED = (
    "the buckets: in the folders that stand for them a file is there as soon as it is written, and a folder is renamed",
    "the limits of CPU and memory: the files of a container are on this machine's disk, and count against no memory",
    "the GPU: whether a task has one decides only whether maintenance ends it or moves it",
    "the image: its files are copied from a folder, and beside them a task sees this machine's",
    "the network, the service account and its rights, quotas, the time that a container takes to start",
)
