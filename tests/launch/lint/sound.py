"""Manifests with nothing wrong, one for each language; a test changes one line of them."""

from __future__ import annotations

from orbit.core.findings import Finding
from orbit.launch.lint.known import Known
from orbit.launch.lint.run import lint_text

DIGEST = "sha256:" + "ab" * 32
OTHER = "sha256:" + "cd" * 32
IMAGE = f"registry.example.org/team/stack@{DIGEST}"

JOB = f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 120
      containers:
      - name: trainer
        image: {IMAGE}
        imagePullPolicy: IfNotPresent
        args: [torchrun, --nproc-per-node, "8", train.py]
        env:
        - {{name: MODE, value: "1"}}
        - name: HF_TOKEN
          valueFrom: {{secretKeyRef: {{name: hf, key: token}}}}
        resources:
          requests: {{cpu: "8", memory: 64Gi, nvidia.com/gpu: 8}}
          limits: {{memory: 64Gi, nvidia.com/gpu: 8}}
        volumeMounts:
        - {{name: shm, mountPath: /dev/shm}}
      volumes:
      - name: shm
        emptyDir: {{medium: Memory, sizeLimit: 16Gi}}
"""


def _group(gpus: int) -> str:
    return f"""\
      rayStartParams: {{num-gpus: "{gpus}"}}
      template:
        spec:
          terminationGracePeriodSeconds: 120
          containers:
          - name: ray
            image: {IMAGE}
            resources:
              requests: {{memory: 64Gi}}
              limits: {{memory: 64Gi, nvidia.com/gpu: {gpus}}}
"""


RAY_JOB = f"""\
apiVersion: ray.io/v1
kind: RayJob
metadata: {{name: train}}
spec:
  entrypoint: python train.py
  backoffLimit: 0
  shutdownAfterJobFinishes: true
  submitterConfig: {{backoffLimit: 0}}
  rayClusterSpec:
    rayVersion: "2.55.1"
    headGroupSpec:
{_group(8)}\
    workerGroupSpecs:
    - groupName: workers
      replicas: 3
{_group(8)}\
"""

COMPOSE = f"""\
services:
  trainer:
    image: {IMAGE}
    command: [torchrun, --nproc-per-node, "2", train.py]
    shm_size: 16gb
    stop_grace_period: 2m
    deploy:
      resources:
        limits: {{memory: 64g}}
        reservations:
          devices:
          - {{driver: nvidia, count: 2, capabilities: [gpu]}}
"""

DOCKER = f"""\
#!/bin/sh
set -eu
exec docker run --rm --init --gpus 2 --shm-size=16g --memory 64g --stop-timeout 120 \\
    -e HF_TOKEN {IMAGE} \\
    torchrun --nproc-per-node=2 train.py
"""

SLURM = f"""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --signal=TERM@120
#SBATCH --export=NONE
#SBATCH --exclusive
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
srun --container-image=registry.example.org#team/stack:{DIGEST} --container-workdir=/data \\
    torchrun --nnodes=2 --nproc-per-node=8 train.py
"""

CONDOR = f"""\
universe = docker
docker_image = {IMAGE}
executable = /usr/bin/torchrun
arguments = "--nproc-per-node=1 /data/train.py --resume"
request_cpus = 8
request_memory = 64GB
request_disk = 50GB
request_gpus = 1
should_transfer_files = YES
when_to_transfer_output = ON_EXIT_OR_EVICT
queue
"""

SOUND = {
    "job.yaml": JOB,
    "rayjob.yaml": RAY_JOB,
    "compose.yaml": COMPOSE,
    "run.sh": DOCKER,
    "train.sbatch": SLURM,
    "train.sub": CONDOR,
}
NOTHING = Known()


def changed(text: str, *pairs: tuple[str, str]) -> str:
    """``text`` with each first string, which must be in it, replaced once."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def name_of(text: str) -> str:
    """A name that fits what ``text`` is a change of."""
    if text.startswith("#!"):
        return "run.sh"
    return "train.sub" if "queue" in text.splitlines()[-1] else "job.yaml"


def found(text: str, rule: str, known: Known = NOTHING) -> list[Finding]:
    """What one rule finds in ``text``."""
    return [finding for finding in lint_text(text, name_of(text), known=known) if finding.rule == rule]
