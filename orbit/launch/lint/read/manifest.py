"""Which language a file is written in, by its content, and its facts."""

from __future__ import annotations

import re

from orbit.launch.lint.facts import Flaw, Form, Manifest
from orbit.launch.lint.read.compose import read_compose
from orbit.launch.lint.read.htcondor import read_htcondor
from orbit.launch.lint.read.kubernetes import read_kubernetes
from orbit.launch.lint.read.scripts import read_shell, read_slurm
from orbit.launch.lint.read.tree import TreeError, read_documents

MAX_BYTES = 4 << 20
"""Of one manifest: etcd takes no object of more than 1.5 MB."""
UNREADABLE = "unreadable-manifest"
API = re.compile(r"""^[ \t]*(?:-[ \t]+)?["']?apiVersion["']?[ \t]*:""", re.MULTILINE)
KIND = re.compile(r"""^[ \t{,]*(?:-[ \t]+)?["']?kind["']?[ \t]*:""", re.MULTILINE)
INLINE = re.compile(
    r"""["']?apiVersion["']?[ \t]*:[^\n]*["']?kind["']?[ \t]*:|["']?kind["']?[ \t]*:[^\n]*["']?apiVersion"""
)
SERVICES = re.compile(r"^[\"']?services[\"']?[ \t]*:", re.MULTILINE)
SERVICE = re.compile(r"^[ \t]+(?:[^#\n]*[{,][ \t]*)?[\"']?(image|build|extends|command)[\"']?[ \t]*:", re.MULTILINE)
SBATCH = re.compile(r"^#SBATCH[ \t]+-", re.MULTILINE)
QUEUE = re.compile(r"^[ \t]*queue\b(?![ \t]*[:=(.])", re.MULTILINE | re.IGNORECASE)
SUBMIT = re.compile(
    r"^[ \t]*(universe|executable|docker_image|container_image|request_gpus|request_cpus|arguments|log)[ \t]*=",
    re.MULTILINE | re.IGNORECASE,
)
ENGINE = re.compile(
    r"""(?:\b(?:docker|podman|nerdctl)|\$\{?\w*(?:engine|docker|podman)\w*\}?"?)[ \t\\\n]+"""
    r"""(?:-\S+[ \t]+)*(?:container[ \t]+)?run\b""",
    re.IGNORECASE,
)
SCRIPT = re.compile(r"^#![^\n]*\b(ba|da|z|k)?sh\b")
TEMPLATE = re.compile(r"\{\{-?|\{%")
SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".job", ".cmd")


def form_of(text: str, name: str = "") -> Form | None:
    """The language of ``text``; None when it is none of ours. ``name`` counts only for scripts without a first line."""
    if SBATCH.search(text):
        return "slurm"
    if SCRIPT.match(text) or name.endswith(SCRIPTS):
        return "shell" if ENGINE.search(text) else None
    signs: tuple[tuple[Form, bool], ...] = (
        ("kubernetes", bool((API.search(text) and KIND.search(text)) or INLINE.search(text))),
        ("compose", bool(SERVICES.search(text) and SERVICE.search(text))),
        ("htcondor", bool(QUEUE.search(text) and SUBMIT.search(text))),
        ("shell", text.lstrip().startswith(("docker", "podman", "nerdctl")) and bool(ENGINE.search(text))),
    )
    return next((form for form, holds in signs if holds), None)


def read_manifest(data: bytes, name: str) -> Manifest:
    """The facts of one file. Never raises for what is in it: what cannot be read is a flaw in the result."""
    if len(data) > MAX_BYTES:
        return _unreadable(name, f"larger than the {MAX_BYTES >> 20} MiB that are read of a manifest")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _unreadable(name, "not text in UTF-8", data.count(b"\n", 0, error.start) + 1)
    if "\0" in text:
        return _unreadable(name, "not text: it holds a NUL", text.count("\n", 0, text.index("\0")) + 1)
    text = text.replace("\r\n", "\n")
    form = form_of(text, name)
    if form is None and SCRIPT.match(text):
        form = "shell"  # one that starts nothing
    if form is None:
        return _unreadable(name, "neither Kubernetes nor compose YAML, submit file, sbatch script nor docker line")
    if form in ("kubernetes", "compose"):
        return _yaml(text, name, form)
    if form == "htcondor":
        workloads, flaws = read_htcondor(text, _stem(name))
    elif form == "slurm":
        workloads, flaws = read_slurm(text, _stem(name))
    else:
        workloads, flaws = read_shell(text)
    return Manifest(file=name, form=form, text=text, workloads=workloads, flaws=tuple(flaws), documents=1)


def _yaml(text: str, name: str, form: Form) -> Manifest:
    try:
        documents, flaws = read_documents(text)
    except TreeError as error:
        what, template = error.what, TEMPLATE.search(text) is not None
        if template:
            what = f"a template, not a manifest ({what}): render it first (helm template, kustomize build)"
        flaw = Flaw(UNREADABLE, what, error.line)
        return Manifest(file=name, form=form, text=text, flaws=(flaw,), is_template=template)
    workloads, more = read_kubernetes(documents) if form == "kubernetes" else read_compose(documents)
    return Manifest(
        file=name, form=form, text=text, workloads=workloads, flaws=(*flaws, *more), documents=len(documents)
    )


def _unreadable(name: str, what: str, line: int = 0) -> Manifest:
    return Manifest(file=name, form=None, flaws=(Flaw(UNREADABLE, what, line),))


def _stem(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0] or "job"
