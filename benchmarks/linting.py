"""How long a lint of many manifests takes, beside the bare parsing of them with PyYAML's C loader."""

import time
from pathlib import Path

import yaml

from outlast.lint.linting import lint
from outlast.lint.settings import LintSettings

COUNT = 1_000
_KUBERNETES = """apiVersion: batch/v1
kind: Job
metadata:
  name: train-{number}
spec:
  backoffLimit: {retries}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 15
      nodeSelector:
        cloud.google.com/gke-spot: "true"
      tolerations:
        - {{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}
      containers:
        - name: main
          image: example.test/train:{number}
          command: ["/bin/sh", "-c"]
          args:
            - |
              set -e
              python prepare.py --shard {number}
              python train.py --epochs 10 --out /mnt/checkpoints/{number} | tee log.txt
          env:
            - {{name: OUTLAST_URL, value: "gs://example-bucket/{number}"}}
          resources:
            limits: {{nvidia.com/gpu: "1", cpu: "8", memory: 32Gi}}
          volumeMounts:
            - {{name: scratch, mountPath: /mnt/checkpoints}}
      volumes:
        - {{name: scratch, emptyDir: {{}}}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings-{number}
data:
  settings.json: '{{"learning_rate": 0.1, "layers": [1, 2, 3]}}'
"""
_CLOUD_RUN = """apiVersion: run.googleapis.com/v1
kind: Job
metadata:
  name: train-{number}
spec:
  template:
    spec:
      taskCount: 1
      template:
        spec:
          maxRetries: {retries}
          timeoutSeconds: 43200
          containers:
            - image: example.test/train:{number}
              command: [python, train.py]
              resources:
                limits: {{nvidia.com/gpu: "1", cpu: "8", memory: 32Gi}}
          nodeSelector:
            run.googleapis.com/accelerator: nvidia-l4
"""


def measure_linting(scale: float, folder: Path) -> dict[str, float]:
    """Seconds of this process's processor time for 1,000 manifests; what parsing alone takes is the limit."""
    count = max(10, round(COUNT * scale))
    paths = [folder / f"job-{number:04}.yaml" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_text((_CLOUD_RUN if number % 3 == 0 else _KUBERNETES).format(number=number, retries=number % 7))
    lint(paths[:2], LintSettings())  # what is imported and compiled once is not the question
    began = time.process_time()
    for path in paths:
        list(yaml.compose_all(path.read_text(), Loader=yaml.CSafeLoader))
    parsed = time.process_time()
    linted = lint([folder], LintSettings())
    ended = time.process_time()
    if linted.files != count or not linted.findings:
        raise RuntimeError(f"{linted.files} of {count} files, {len(linted.findings)} findings")
    return {"lint": (ended - parsed) * COUNT / count, "lint_parse": (parsed - began) * COUNT / count}
