"""Submit descriptions: golden files, HTCondor's own parser where it is installed, and the field reports."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.launch.node.options import parse
from orbit.launch.plan import ENTRYPOINT, LaunchPlan
from orbit.launch.render import default_form, render
from orbit.launch.render.htcondor import NEVER, arguments, string, variables
from tests.launch.render.condor import condor, job_ads, lines_of, split
from tests.launch.render.golden import check_golden
from tests.launch.render.plans import DIGEST, REPOSITORY, plan

SHARED: dict[str, Any] = {"network": {"host_network": True}, "storage": {"shared": "/shared"}}


def can_be_said(word: str) -> bool:
    return not any(pattern.search(word) for pattern, _why in NEVER)


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=14).filter(can_be_said)
TRICKY = st.text(st.sampled_from("$(){}@=#'\" \n\\aENVdollar"), max_size=14).filter(can_be_said)
ODD = [
    "", " ", "a b", "it's", "''", '"', '""', "$HOME", "$(HOME)", "$$", "$ENV(HOME)", "${HOME}", "\\", "a\\", "#",
    "a #b", "@end", "@", "tab\there", "queue", "\u00e4\u20ac", "$$HOME", "a=b", "  ", "' '", "\\'", '\\"', "$", "$ (a)",
]  # fmt: skip


def two(**changed: Any) -> LaunchPlan:
    """Two nodes that meet in a shared folder."""
    return plan("htcondor", of_site=SHARED, **({"nodes": 2, "gpus_per_node": 8, "secrets": ["TOKEN"]} | changed))


def text_of(one: LaunchPlan, form: str = "container") -> str:
    """The submit description."""
    return render(one, form)[0].text


CASES = {
    "htcondor-container-1": (lambda: plan("htcondor", gpus_per_node=8), "container"),
    "htcondor-docker-1": (lambda: plan("htcondor", folder="/data/demo"), "docker"),
    "htcondor-container-2-nodes": (
        lambda: plan(
            "htcondor",
            of_site=SHARED | {"htcondor": {"requirements": "TARGET.Rack == 3", "attributes": {"+Project": '"demo"'}}},
            nodes=2,
            gpus_per_node=8,
            secrets=["TOKEN"],
        ),
        "container",
    ),
    "htcondor-sif": (
        lambda: plan("htcondor", of_site={"image": {"runtime": "apptainer", "form": "sif", "path": "/images"}}),
        "container",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    make, form = CASES[case]
    check_golden(case, render(make(), form))


@pytest.mark.parametrize("case", CASES)
def test_htcondor_reads_it(case: str) -> None:
    make, form = CASES[case]
    ads = job_ads(text_of(make(), form), private="/tmp/p")
    assert len(ads) == make().job.nodes
    for rank, ad in enumerate(ads):
        assert ad["Cmd"] == ENTRYPOINT
        assert ad["TransferExecutable"] is False
        assert ad["Env"]["ORBIT_IMAGE_DIGEST"] == DIGEST
        assert ad["Env"].get("ORBIT_RANK", "0") == str(rank)
        place = ad["Argv"].index("launch")
        assert parse(ad["Argv"][place + 2 :]).command == ("python3.12", "/data/train.py")
        assert (ad["Out"], ad["Err"]) == (f"demo.{rank}.out", f"demo.{rank}.err")
        assert ad["RequestMemory"] == 1000 * 1024
        assert ad["RequestCpus"] == 96
        assert ad["RequestDisk"] == 20 << 20
        assert ad["AllowedExecuteDuration"] == 75 * 60
        assert ad["JobMaxVacateTime"] == 60
        assert (ad["StreamOut"], ad["StreamErr"]) == (True, True)
        assert ad["JobBatchName"] == "demo"


def test_htcondor_asks_for_gpus_of_the_sites_kind() -> None:
    (ad,) = job_ads(text_of(plan("htcondor", gpus_per_node=8)))
    assert ad["RequestGPUs"] == 8
    classad = pytest.importorskip("classad")
    for name, fits in (("NVIDIA H100 80GB HBM3", True), ("NVIDIA A100-SXM4-80GB", False)):
        assert classad.ExprTree(str(ad["RequireGPUs"])).eval(classad.ClassAd({"DeviceName": name})) is fits
    (without,) = job_ads(text_of(plan("htcondor")))
    assert "RequestGPUs" not in without


@pytest.mark.parametrize(
    ("held", "job", "removed"),
    [
        ("running", {"JobStatus": 2, "NumJobStarts": 1, "EnteredCurrentStatus": 0}, False),
        ("waiting for its first machine", {"JobStatus": 1, "NumJobStarts": 0, "EnteredCurrentStatus": 0}, False),
        ("its machine was taken away", {"JobStatus": 1, "NumJobStarts": 1, "EnteredCurrentStatus": 0}, True),
        ("held a long time ago", {"JobStatus": 5, "NumJobStarts": 1, "EnteredCurrentStatus": 0}, True),
        ("held just now", {"JobStatus": 5, "NumJobStarts": 1, "EnteredCurrentStatus": 1 << 40}, False),
    ],
)
def test_htcondor_runs_it_once(held: str, job: dict[str, int], removed: bool) -> None:
    (ad,) = job_ads(text_of(plan("htcondor")))
    classad = pytest.importorskip("classad")
    assert bool(classad.ExprTree(str(ad["PeriodicRemove"])).eval(classad.ClassAd(job))) is removed, held
    assert str(ad["OnExitRemove"]).lower() == "true"


def test_htcondor_transfers_the_token_as_a_file() -> None:
    for ad in job_ads(text_of(two()), private="/var/p"):
        assert ad["TransferInput"] == "/var/p/owner,/var/p/secrets"
        assert ad["ShouldTransferFiles"] == "YES"


def test_htcondor_is_told_the_image() -> None:
    (ad,) = job_ads(text_of(plan("htcondor"), "docker"))
    assert ad["WantDocker"] is True
    assert ad["DockerImage"] == f"{REPOSITORY}@{DIGEST}"
    (ad,) = job_ads(text_of(plan("htcondor")))
    assert ad["ContainerImage"] == f"docker://{REPOSITORY}@{DIGEST}"
    make, form = CASES["htcondor-sif"]
    (ad,) = job_ads(text_of(make(), form))
    assert ad["ContainerImage"] == f"/images/{DIGEST.replace(':', '-')}.sif"
    assert ad["TransferContainer"] is False


@given(st.lists(WORDS, max_size=5))
@settings(deadline=None)
def test_words_are_read_as_they_were_written(words: list[str]) -> None:
    assert split(arguments(words)) == words


@given(st.dictionaries(st.from_regex(r"\A[A-Z_]{1,6}\Z"), WORDS, min_size=1, max_size=4))
@settings(deadline=None)
def test_variables_are_read_as_they_were_written(values: dict[str, str]) -> None:
    assert dict(word.split("=", 1) for word in split(variables(values))) == values


@given(
    st.lists(WORDS | TRICKY | st.sampled_from(ODD), max_size=4),
    st.dictionaries(st.sampled_from("ABC"), WORDS | TRICKY | st.sampled_from(ODD)),
)
@settings(deadline=None, max_examples=300)
def test_htcondor_gives_back_what_was_written(words: list[str], values: dict[str, str]) -> None:
    condor()
    lines = ["executable = /bin/x", f"arguments = {arguments(words)}", f"environment = {variables(values)}"]
    (ad,) = job_ads("\n".join([*lines, "queue 1", ""]))
    assert ad["Argv"] == words
    assert ad["Env"] == values


@pytest.mark.parametrize("odd", ODD)
def test_htcondor_gives_back_odd_words(odd: str) -> None:
    lines = ["executable = /bin/x", f"arguments = {arguments(['a', odd, 'b'])}"]
    lines.append(f"environment = {variables({'A': odd, 'B': 'b'})}")
    (ad,) = job_ads("\n".join([*lines, "queue 1", ""]))
    assert ad["Argv"] == ["a", odd, "b"]
    assert ad["Env"] == {"A": odd, "B": "b"}


def test_htcondor_reads_strings_of_expressions() -> None:
    condor()
    classad = pytest.importorskip("classad")
    for text in ("a", 'a"b', "a\\b", "\\"):
        assert classad.ExprTree(string(text)).eval() == text


@pytest.mark.parametrize(
    "text", ["echo $$(Memory)", "$$[1+1]", "a $(DOLLAR) b", "$(dollar)", "a\nb", "\n", "a\rb", "$$ENV(A)"]
)
def test_what_cannot_be_written_is_refused(text: str) -> None:
    for write in (lambda: arguments(["a", text]), lambda: variables({"A": text})):
        with pytest.raises(InputError, match="cannot be written") as caught:
            write()
        assert "script" in caught.value.fix


def test_the_command_starts_with_the_entry_point_and_runs_where_it_shall(tmp_path: Path) -> None:
    """What HTCondor would start, started: the token and secrets come from the scratch folder, wherever that is."""
    folder = tmp_path / "work folder"
    folder.mkdir()
    scratch = tmp_path / "scratch dir"
    (scratch / "secrets").mkdir(parents=True)
    (scratch / "secrets" / "TOKEN").write_text("s3cret\n")
    (scratch / "owner").write_text("ab" * 32)
    command = ["echo", "$HOME", "it's", '"x"']
    lines = lines_of(text_of(two(folder=str(folder), command=command)))
    bins = tmp_path / "bin"
    bins.mkdir()
    (bins / "orbit").write_text(
        '#!/bin/sh\npwd\ncat "$ORBIT_OWNER_FILE"; echo\nprintf "%s" "$TOKEN"\nprintf "%s\\0" "$@"\n'
    )
    (bins / "orbit").chmod(0o755)
    env = {"PATH": f"{bins}:{os.environ['PATH']}", "_CONDOR_SCRATCH_DIR": str(scratch)}
    words = split(lines["arguments"])
    said = subprocess.run(words, env=env, cwd=scratch, capture_output=True, check=True, text=True).stdout
    where, token, secret, rest = said.split("\n", 3)
    assert (where, token, secret) == (str(folder), "ab" * 32, "s3cret")
    assert list(parse(rest.rstrip("\0").split("\0")[2:]).command) == command
    assert lines["executable"] == ENTRYPOINT


def test_nodes_meet_in_the_shared_folder_by_number() -> None:
    words = split(lines_of(text_of(two()))["arguments"])
    order = parse(words[words.index("launch") + 2 :])
    assert (order.meet, order.rank, order.nodes) == ("dir:/shared", "env:ORBIT_RANK", 2)
    env = [split(lines_of(text_of(two()))["environment"], rank) for rank in (0, 1)]
    assert [dict(word.split("=", 1) for word in each)["ORBIT_RANK"] for each in env] == ["0", "1"]
    assert text_of(two()).endswith("\nqueue 2\n")


def test_no_secret_is_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    lines = lines_of(text_of(two()))
    assert "hunter2" not in text_of(two())
    assert lines["getenv"] == "false"
    assert "TOKEN" not in lines["environment"]


def test_the_slots_gpus_are_not_overwritten() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in text_of(two())
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES"):
        render(two(environment={"CUDA_VISIBLE_DEVICES": "0,1"}), "container")


def test_lines_of_the_site_are_taken_as_they_are() -> None:
    make, form = CASES["htcondor-container-2-nodes"]
    lines = lines_of(text_of(make(), form))
    assert lines["+Project"] == '"demo"'
    assert lines["requirements"].startswith("TARGET.Rack")
    for ad in job_ads(text_of(make(), form), private="/p"):
        assert ad["Project"] == "demo"
        assert "TARGET.Rack == 3" in str(ad["Requirements"])


@pytest.mark.parametrize(
    ("form", "of_site", "of_job", "said"),
    [
        ("docker", {"image": {"runtime": "apptainer", "form": "sif", "path": "/i"}}, {}, "docker universe"),
        (
            "container",
            {"image": {"runtime": "none", "form": "prefix", "path": "/i"}},
            {},
            "nothing that HTCondor starts",
        ),
        ("container", {"user": {"policy": "fixed"}}, {}, "'fixed'"),
        ("container", {}, {"mounts": [{"host": "/a", "container": "/b"}]}, "up to the pool"),
        ("container", {}, {"nodes": 2}, "storage.shared"),
        ("docker", {"storage": {"shared": "/s"}}, {"nodes": 2}, "host_network"),
        ("container", {"htcondor": {"requirements": "a\nqueue 5"}}, {}, "more than one line"),
        ("container", {"htcondor": {"attributes": {"+A": '"x"\nqueue 5'}}}, {}, "more than one line"),
    ],
)
def test_what_a_pool_cannot_be_told_is_refused(
    form: str, of_site: dict[str, Any], of_job: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        render(plan("htcondor", of_site=of_site, **of_job), form)
    assert said in str(caught.value)
    assert caught.value.fix


def test_the_site_names_the_universe() -> None:
    assert default_form(plan("htcondor")) == "container"
    assert default_form(plan("htcondor", of_site={"htcondor": {"universe": "docker"}})) == "docker"


def test_every_line_is_a_comment_a_setting_or_the_queue() -> None:
    for line in text_of(two()).splitlines():
        assert re.match(r"^(#.*|[+A-Za-z_.]+ @?= ?.*|queue \d+|)$", line), line
