# ruff: noqa: E501 - a case is one line
"""Which language a text is in, and texts that are in none."""

from __future__ import annotations

import random

import pytest

from orbit.launch.lint.known import Known
from orbit.launch.lint.read.manifest import MAX_BYTES, form_of, read_manifest
from orbit.launch.lint.run import lint_text
from tests.launch.lint.sound import SOUND


@pytest.mark.parametrize(
    ("name", "form"),
    [("job.yaml", "kubernetes"), ("rayjob.yaml", "kubernetes"), ("compose.yaml", "compose"), ("run.sh", "shell"),
     ("train.sbatch", "slurm"), ("train.sub", "htcondor")],
)  # fmt: skip
def test_forms_by_content(name: str, form: str) -> None:
    assert form_of(SOUND[name], "any.txt") == form
    assert form_of(SOUND[name].replace("\n", "\n\n"), "") == form


@pytest.mark.parametrize(
    "text",
    ["", "a: 1\n", "on: push\njobs: {a: {steps: []}}\n", "services: [a]\n", "# docker run x\n", "import queue\nqueue = 1\n",
     "#!/bin/sh\necho docker\n", "#!/usr/bin/env python3\nprint('docker run x')\n", "kind: Cluster\nnodes: []\n",
     "[tool.x]\nexecutable = 'a'\n", "Use `docker run` to start it.\n"],
)  # fmt: skip
def test_no_manifests(text: str) -> None:
    assert form_of(text, "a.txt") is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff\xfe\x00apiVersion", "UTF-8"),
        (b"apiVersion: v1\nkind: Pod\nx: \xe9\n", "UTF-8"),
        (b"apiVersion: v1\nkind: Pod\n\0", "NUL"),
        (b"\x7fELF" + bytes(200), "NUL"),
        (b"x" * (MAX_BYTES + 1), "larger"),
        (b"", "neither"),
        (b"apiVersion: v1\nkind: Pod\n\tspec: 1\n", "not YAML"),
    ],
    ids=range(7),
)
def test_what_cannot_be_read_is_a_finding(data: bytes, says: str) -> None:
    (finding,) = lint_text(data, "a.yaml")
    assert finding.rule == "unreadable-manifest"
    assert says in finding.message
    assert finding.fatal


def test_a_mark_at_the_beginning_and_foreign_line_ends() -> None:
    text = ("\ufeff" + SOUND["job.yaml"]).replace("\n", "\r\n")
    assert lint_text(text, "a.yaml") == ()


def test_damaged_manifests_never_crash() -> None:
    """Bytes changed, cut out and doubled: findings, whatever they are, and no exception."""
    choose = random.Random(7)
    count = 0
    for name, text in SOUND.items():
        data = text.encode()
        for _round in range(150):
            damaged = bytearray(data)
            for _change in range(choose.randrange(1, 6)):
                place = choose.randrange(len(damaged))
                what = choose.randrange(3)
                if what == 0:
                    damaged[place] = choose.randrange(256)
                elif what == 1:
                    del damaged[place : place + choose.randrange(1, 30)]
                else:
                    damaged[place:place] = damaged[place : place + choose.randrange(1, 40)]
            findings = lint_text(bytes(damaged), name, known=Known(ray="2.55.1"))
            assert all(finding.message for finding in findings)
            count += len(findings)
    assert count > 100


def test_the_reader_says_what_it_read() -> None:
    manifest = read_manifest(SOUND["rayjob.yaml"].encode(), "a.yaml")
    assert (manifest.documents, len(manifest.workloads), manifest.flaws) == (1, 1, ())
