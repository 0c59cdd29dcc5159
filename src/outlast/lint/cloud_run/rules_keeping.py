"""The rules on what a Cloud Run job keeps, who it is, and how it is written down."""

from outlast.lint.rule import ERROR, INFO, WARNING, Rule

_CONTRACT = "Cloud Run, Container runtime contract (2026-04-08)"
_MOUNTS = "Cloud Run, Cloud Storage volume mounts for jobs (2026-11-29)"
_TUTORIAL = "Cloud Run, Design resilient long-running GPU jobs (2026-11)"

UNLISTED_FLAG = Rule(
    "CR013",
    ERROR,
    "a flag that the installed Cloud SDK does not list",
    "gcloud stops with `unrecognized arguments`: nothing is deployed. Flags differ between versions and tracks.",
    "update the SDK or use another track; `gcloud run jobs replace` takes every setting as YAML",
    "the Cloud SDK installed here: its own table of flags, or its --help",
)
KEEPS_NOTHING = Rule(
    "CR014",
    WARNING,
    "nothing that the job writes outlives an attempt",
    "A container's file system is memory and ends with the attempt: every retry starts from the beginning.",
    "mount a bucket (type=cloud-storage) and save there, or save to a gs:// URL",
    f"{_CONTRACT}: the file system is in memory",
)
OUTSIDE_MOUNTS = Rule(
    "CR015",
    ERROR,
    "checkpoints go to a folder that is lost",
    "The folder is below no volume that persists: it ends with the attempt, and every retry starts from the beginning.",
    "save below the mount path of the bucket",
    f"{_CONTRACT}: the file system is in memory; {_MOUNTS}",
)
READ_ONLY = Rule(
    "CR016",
    ERROR,
    "the volume for checkpoints is mounted read-only",
    "Every save fails.",
    "mount it for writing: readOnly: false",
    f"{_MOUNTS}: readOnly",
)
LITTLE_MEMORY = Rule(
    "CR017",
    WARNING,
    "less memory than a checkpoint",
    "A file written to a mounted bucket is staged in memory: the work and the whole checkpoint have to fit at once.",
    "give more memory, or write the checkpoint in smaller files",
    f"{_MOUNTS}: the entire file is staged in memory",
)
FAR_BUCKET = Rule(
    "CR018",
    WARNING,
    "the bucket is in another region",
    "The final save has 10 seconds; between regions it is slower, and each byte is billed.",
    "use a bucket in the job's region",
    "Cloud Run, Cloud Storage volume mounts for jobs (2026-11-29)",
)
ACCOUNT = Rule(
    "CR019",
    INFO,
    "no service account of its own, or one whose address is wrong",
    "The default account may do far more than the job needs, and in new projects often nothing at all. A cut address "
    "is refused.",
    "make one for the job, with roles/storage.objectUser on its bucket: NAME@PROJECT.iam.gserviceaccount.com",
    "Cloud Run, Service identity (2026-11-29); IAM, Service accounts: their addresses",
)
RESERVED = Rule(
    "CR020",
    ERROR,
    "a variable that Cloud Run sets itself",
    "Its name is reserved: the job is refused, or the program believes a wrong task or attempt.",
    "take it out; read it in the program",
    f"{_CONTRACT}; Cloud Run, Environment variables for jobs; gcloud 528.0.0 sends it unchanged",
)
SAME_PLACE = Rule(
    "CR022",
    WARNING,
    "several tasks are given one place for checkpoints",
    "Each task overwrites what the others have saved, unless the program adds its task's index.",
    "have $CLOUD_RUN_TASK_INDEX in the path; outlast.Job keeps tasks apart itself",
    f"{_TUTORIAL}: the file's name holds the task's index",
)
REFUSED_FORM = Rule(
    "CR025",
    ERROR,
    "a field or value that Cloud Run or gcloud refuses",
    "`gcloud run jobs replace` reads strictly: an unknown field or a wrong type stops it, and nothing is deployed.",
    "write it as the API has it",
    "gcloud 528.0.0, run jobs replace: Failed to parse value(s) in protobuf",
)
RARE_SAVES = Rule(
    "CR026",
    WARNING,
    "checkpoints are far apart",
    "The 10 seconds at the end are too short for a large state: what is lost is the time since the last save.",
    "save at least every 15 minutes, and ten times within a timeout; `outlast interval` tells the best",
    f"{_TUTORIAL}: periodic saves are the protection",
)
SLOW_SAVE = Rule(
    "CR027",
    WARNING,
    "the final save takes longer than Cloud Run waits",
    "SIGKILL comes 10 seconds after SIGTERM, whatever is being written.",
    "make the state smaller or save more often, so that the last save need not succeed",
    f"{_CONTRACT}: SIGTERM, 10 s, SIGKILL",
)
WAITING = Rule(
    "CR028",
    INFO,
    "a pipeline waits for the whole job",
    "The pipeline's own time limit ends the wait before a long job is done, and tells it as failed.",
    "start it without --wait and look with `gcloud run jobs executions describe`",
    "gcloud 528.0.0, run jobs execute --help; Cloud Build: a build ends after 60 minutes unless told otherwise",
)
ONE_WORD = Rule(
    "CR033",
    ERROR,
    "a program and its arguments in one word",
    "No shell splits it: the container looks for a program whose name has blanks, finds none, and every attempt fails.",
    "write each word by itself: --command=python --args=train.py, or a list",
    "Cloud Run, Configure containers: command and args are lists (2026-11-30); gcloud 528.0.0 splits at commas alone",
)
NO_SUCH_VOLUME = Rule(
    "CR032",
    ERROR,
    "a mount of a volume that is not there",
    "The job is refused, or the folder is an ordinary one, in memory.",
    "declare the volume under the same name",
    "Cloud Run Admin API, VolumeMount.name: must match the name of a volume (2026-11-29)",
)
RULES = (
    UNLISTED_FLAG, KEEPS_NOTHING, OUTSIDE_MOUNTS, READ_ONLY, LITTLE_MEMORY, FAR_BUCKET, ACCOUNT, RESERVED, SAME_PLACE,
    REFUSED_FORM, RARE_SAVES, SLOW_SAVE, WAITING, NO_SUCH_VOLUME, ONE_WORD,
)  # fmt: skip
