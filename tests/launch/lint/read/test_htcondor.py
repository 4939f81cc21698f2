# ruff: noqa: E501 - a case is one line
"""Submit files."""

from __future__ import annotations

import pytest

from orbit.launch.lint.facts import SOME, Workload
from orbit.launch.lint.read.manifest import read_manifest


def workloads(text: str) -> tuple[Workload, ...]:
    manifest = read_manifest(text.encode(), "a.sub")
    assert manifest.form == "htcondor"
    return manifest.workloads


def test_macros_lines_and_environment() -> None:
    (found,) = workloads("""\
# a comment
N = 4
universe = Container
container_image = docker://a/$(WHAT:b):1
Request_GPUs = $(N)
arguments = "--x 'a b' \\
  --n=$(N)"
environment = "A=1 B='two words' C='it''s'"
+Project = "demo"
queue 3
""")
    (item,) = found.pods[0].containers
    assert item.image == ("docker://a/b:1", 4)
    assert item.gpus == 4
    assert [word.text for word in item.args] == ["--x", "a b", "--n=4"]
    assert [(env.name, env.value) for env in item.env] == [("A", "1"), ("B", "two words"), ("C", "it's")]
    assert found.settings["+project"].text == '"demo"'
    assert item.shm.kind == "host"


def test_old_spellings() -> None:
    (found,) = workloads(
        "executable = x\nuniverse = docker\ndocker_image = a\narguments = a b\nenvironment = A=1;B=2\nQueue\n"
    )
    (item,) = found.pods[0].containers
    assert [word.text for word in item.words] == ["x", "a", "b"]
    assert [(env.name, env.value) for env in item.env] == [("A", "1"), ("B", "2")]
    assert item.shm.kind == "default"


def test_an_expression_is_some_number() -> None:
    (found,) = workloads("executable = x\nrequest_gpus = TARGET.Gpus > 1 ? 2 : 1\nqueue\n")
    assert found.pods[0].containers[0].gpus == SOME


@pytest.mark.parametrize(
    "text",
    ["executable = x\n" + "queue\n" * 5000, "a = $(a)\nexecutable = $(a)\nqueue\n", "executable = x\\\n" * 2000 + "queue\n",
     "x0 = " + "y" * 4000 + "\n" + "".join(f"x{i} = $(x{i - 1})$(x{i - 1})\n" for i in range(1, 50)) + "executable = $(x49)\nqueue\n"],
    ids=range(4),
)  # fmt: skip
def test_hostile(text: str) -> None:
    manifest = read_manifest(text.encode(), "a.sub")
    assert len(manifest.workloads) <= 1
