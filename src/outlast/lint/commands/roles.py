"""Which command of a script is its main program: not what prepares it, copies its results or says that it is done."""

import re
from collections.abc import Sequence

from outlast.lint.command_line import Word
from outlast.lint.commands.launchers import find_hop
from outlast.lint.commands.shells import is_shell

# Programs that a script uses around its work; whether they hear a signal does not matter.
_CHORE_NAMES = """
    [ [[ : . aws awk az basename bc break builtin cat cd chgrp chmod chown clear column command-not-found continue cp
    curl cut date dd declare df dig dirname du echo egrep envsubst eval exit export expr false fc find fgrep file
    free fusermount gcloud gcsfuse getent getopts git grep groupadd gsutil gunzip gzip hash head history host
    hostname id ifconfig jobs jq kill killall kubectl ldconfig less let ln local locale ls lsb_release lscpu lsof
    md5sum mkdir mkfifo mktemp ml module more mount mountpoint mv nc nl nproc nslookup nvcc nvidia-smi openssl ping
    pip pip3 pkill popd printenv printf ps pushd pwd pwait read readarray readlink readonly realpath renice return
    rm rmdir rocm-smi rsync s3cmd sacct scancel scontrol scp sed seq set sha256sum shift shopt shuf sinfo sleep
    sort source split squeue ssh sshd sstat stat stty su sync systemctl tail tar tee test time-stamp top touch tput tr
    trap tree true type ulimit umask umount unalias uname uniq unset unxz unzip uptime useradd usermod wait wc wget
    whereis which who whoami xz yes zcat zip apt apt-get apk dnf yum dpkg brew mamba-init update-ca-certificates
    deactivate activate times mailx nvidia-cuda-mps-server dcgmi git-lfs gpustat htop tmux squeue srun-status
    service rclone mlflow-ui huggingface-cli hf wandb nvidia-cuda-mps-control sysctl swapon mail sendmail
    """
_CHORES = frozenset(_CHORE_NAMES.split())
# Their first words: with `run` they start a program, without it they prepare one.
_PREPARING = {"conda", "mamba", "micromamba", "poetry", "pipenv", "uv", "npm", "yarn", "pnpm", "bundle", "hatch"}
_PREPARING_PYTHON = re.compile(
    r"(?:^|/)(?:setup|manage|download\w*|prepare\w*|preprocess\w*|install\w*|test_\w+|check\w*)\.py$"
)
_TRAINING = re.compile(r"train|fine_?tun|finetune|pretrain|\bfit\b|\bsft\b|\bdpo\b|lora|distill", re.IGNORECASE)
_LAUNCHERS = {"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun", "srun"}

CHORE, MINOR, PROGRAM, TRAINING = range(4)


def role_of(words: Sequence[Word]) -> int:
    """How much a command looks like the main program: CHORE is none at all, TRAINING is what the script is for."""
    words = _without_launchers(words)
    if not words:
        return PROGRAM  # behind a launcher, but what it is is open
    name = (words[0].text or "").rsplit("/", 1)[-1]
    if name in _CHORES or name in _PREPARING or (is_shell(name) and len(words) == 1):
        return CHORE
    if name in _LAUNCHERS:
        return TRAINING
    texts = [word.start for word in words[1:]]
    if re.match(r"python|pypy", name):
        return _role_of_python(texts)
    return TRAINING if any(_TRAINING.search(text.rsplit("/", 1)[-1]) for text in (name, *texts[:12])) else PROGRAM


def _role_of_python(texts: Sequence[str]) -> int:
    if texts[:1] in (["-c"], ["-V"], ["--version"]):
        return MINOR
    if texts[:2] and texts[0] == "-m" and len(texts) > 1 and texts[1] in ("pip", "venv", "ensurepip", "compileall"):
        return CHORE
    script = next((text for text in texts if not text.startswith("-")), "")
    if _PREPARING_PYTHON.search(script):
        return MINOR
    return TRAINING if any(_TRAINING.search(text.rsplit("/", 1)[-1]) for text in texts[:6]) else PROGRAM


def is_named_for_training(path: str) -> bool:
    """Whether a script's name says training."""
    return _TRAINING.search(path.rsplit("/", 1)[-1]) is not None


def _without_launchers(words: Sequence[Word]) -> Sequence[Word]:
    for _ in range(8):
        hop = find_hop(words)
        if hop is None:
            return words
        words = hop.rest
    return words


def told(words: Sequence[Word]) -> str:
    """A command for a message, shortened."""
    text = " ".join(word.text if word.text is not None else (word.raw or f"{word.prefix}...") for word in words)
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."
