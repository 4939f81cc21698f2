"""A job on a cluster: from a recipe and a site file to docker, Kubernetes, HTCondor or Slurm.

``render`` writes what the scheduler is told, ``submit`` hands it over, ``status``, ``logs`` and ``cancel`` follow the
job by its name. Page: docs/launch.md.
"""

from __future__ import annotations

import argparse

from orbit.cli import add_actions, run_action

HELP = "run the image on one machine, Kubernetes, HTCondor or Slurm, from one recipe and one site file"
ACTIONS = {
    "render": "the files a scheduler is told, on stdout or in a folder; nothing is submitted",
    "lint": "judge manifests, those of a recipe or any others, before a scheduler sees them",
    "submit": "hand a job to the scheduler, after what is rendered was judged",
    "status": "what the scheduler says of a job, or of all that were submitted from here",
    "logs": "what a job printed",
    "cancel": "end a job: SIGTERM and its grace period",
    "site": "what a cluster is: show a site file, check it, fill one in from inside a node",
    "node": "one node of a job: checked, met, Ray brought up, the command run; what a container starts",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Sub-commands and their options; each is a module beside this one."""
    add_actions(parser, __name__, ACTIONS)


run = run_action
