"""A plan as the files a scheduler reads: ``render(plan, form)``. Pure: nothing is asked, nothing is written."""

from __future__ import annotations

import importlib

from orbit.core.records import Record
from orbit.errors import InputError
from orbit.launch.plan import LaunchPlan
from orbit.launch.render.words import check


class File(Record, frozen=True, kw_only=True):
    """One rendered file."""

    name: str
    """Relative, one word: it lies in the folder of the job."""
    text: str
    mode: int = 0o644
    """0755 for what is run."""


FORMS: dict[str, dict[str, str]] = {
    "docker": {"run": "docker", "compose": "compose"},
    "kubernetes": {"job": "kubernetes", "rayjob": "kuberay", "raycluster": "kuberay", "prepull": "kubernetes"},
    "htcondor": {"docker": "htcondor", "container": "htcondor"},
    "slurm": {"pyxis": "slurm", "apptainer": "slurm", "none": "slurm"},
}
"""Scheduler -> form -> module of this package; it has ``render(plan, form) -> tuple[File, ...]``, main file first."""


def default_form(plan: LaunchPlan) -> str:
    """The form that fits the site and the job where none is named. Raises :class:`InputError` when none does."""
    site, job = plan.site, plan.job
    if site.scheduler == "docker":
        return "run" if job.nodes == 1 or site.network.host_network else "compose"
    if site.scheduler == "kubernetes":
        return "rayjob" if site.kubernetes.kuberay and job.ray else "job"
    if site.scheduler == "htcondor":
        return site.htcondor.universe
    if site.image.runtime not in ("pyxis", "apptainer", "none"):
        raise InputError(
            f"site {site.name}: image.runtime = {site.image.runtime!r} is nothing that Slurm starts",
            fix="image.runtime = 'pyxis', 'apptainer' or 'none' in the site file",
        )
    return site.image.runtime


def render(plan: LaunchPlan, form: str = "") -> tuple[File, ...]:
    """The files for ``plan.site.scheduler`` in a ``form`` of it (:data:`FORMS`; empty: :func:`default_form`).

    The first one is what is handed to the scheduler. Raises :class:`InputError` for a form the scheduler does not have
    and for what cannot be said in it.
    """
    check(plan)
    form = form or default_form(plan)
    forms = FORMS[plan.site.scheduler]
    if form not in forms:
        raise InputError(
            f"site {plan.site.name}: scheduler {plan.site.scheduler} has no form {form!r}",
            fix=f"--form {' or '.join(sorted(forms)) or '...: none yet'}",
        )
    module = importlib.import_module(f"{__name__}.{forms[form]}")
    files: tuple[File, ...] = module.render(plan, form)
    return files
