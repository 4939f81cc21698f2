"""sbatch scripts: what srun is told, as a shell really says it, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.launch.node.options import parse
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import default_form, render
from orbit.launch.render.slurm import enroot_uri
from orbit.launch.render.words import environment
from tests.launch.render.golden import check_golden
from tests.launch.render.plans import DIGEST, REPOSITORY, plan
from tests.launch.render.scripts import check_shell, recorded, steady

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
IMAGES: dict[str, dict[str, str]] = {
    "pyxis": {"runtime": "pyxis", "repository": REPOSITORY},
    "pyxis-squashfs": {"runtime": "pyxis", "form": "squashfs", "path": "/images"},
    "apptainer": {"runtime": "apptainer", "form": "sif", "path": "/images"},
    "apptainer-registry": {"runtime": "apptainer", "repository": REPOSITORY},
    "archive": {"runtime": "none", "form": "archive", "path": "/images", "orbit": "/sw/orbit/bin/orbit"},
    "prefix": {"runtime": "none", "form": "prefix", "path": "/sw/env"},
}
SHARED = {"scratch": "/scratch", "shared": "/shared", "mounts": [{"host": "/shared", "container": "/shared"}]}


def made(image: str, *, of_site: dict[str, Any] | None = None, **of_job: Any) -> LaunchPlan:
    """A job on a Slurm site that has its environment as ``image`` says."""
    return plan("slurm", of_site={"image": IMAGES[image]} | (of_site or {}), **of_job)


def script(one: LaunchPlan) -> str:
    """The one file, in the form the site names."""
    (file,) = render(one, default_form(one))
    assert file.name == "demo.sbatch"
    return file.text


def run_by(one: LaunchPlan, folder: Path, **env: str) -> list[list[str]]:
    """The calls of srun that the script makes on a cluster of two nodes."""
    (folder / "tools").mkdir(exist_ok=True)
    (folder / "tools/scontrol").write_text("#!/bin/sh\nprintf 'n1\\nn2\\n'\n")
    (folder / "tools/scontrol").chmod(0o755)
    slurm = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_SUBMIT_DIR": str(folder)}
    return recorded(script(one), folder, programs=("srun",), **slurm, **env)


@pytest.mark.parametrize("image", sorted(IMAGES))
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_script_is_the_golden_one_and_a_shell_reads_it(image: str, nodes: int, tmp_path: Path) -> None:
    one = made(
        image,
        nodes=nodes,
        gpus_per_node=8,
        secrets=["HF_TOKEN"],
        environment={"ODD": 'it\'s $HOME,\n"x"'},
        of_site={
            "storage": SHARED,
            "network": {"proxy": "http://p.example.org:3128", "rdma": "wanted"},
            "user": {"policy": "caller"},
            "slurm": {"partition": "gpu", "account": "team", "options": ["--constraint=ib"]},
        },
    )
    files = steady(one, default_form(one))
    check_golden(f"slurm-{image}-{nodes}", files)
    check_shell(files[0].text, tmp_path)


@given(st.dictionaries(st.sampled_from(["A", "B"]), TEXT), st.lists(TEXT.filter(bool), max_size=2))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("image", ["pyxis", "apptainer", "prefix"])
def test_what_a_task_gets_is_what_the_plan_says(
    image: str, tmp_path: Path, variables: dict[str, str], words: list[str]
) -> None:
    one = made(image, environment=variables, command=["/bin/x", *words])
    (call,) = run_by(one, tmp_path)
    start = call.index("/usr/bin/env") + 1
    entry = next(place for place in range(start, len(call)) if call[place].endswith("/bin/orbit-entrypoint"))
    assert dict(text.split("=", 1) for text in call[start:entry]) == environment(one)
    assert call[entry + 1 : entry + 4] == ["orbit", "launch", "node"]
    assert parse(call[entry + 4 :]).command == ("/bin/x", *words)


def test_nodes_meet_at_the_first_one_past_the_proxy_with_one_token(tmp_path: Path) -> None:
    one = made("prefix", nodes=2, of_site={"network": {"proxy": "http://p:1"}})
    text = script(one).replace("\nsrun ", '\nls -l "$private/owner" >>seen; cat "$private/owner" >>seen; srun ')
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/scontrol").write_text("#!/bin/sh\nprintf 'n1\\nn2\\n'\n")
    (tmp_path / "tools/scontrol").chmod(0o755)
    text = text.replace(">>seen", f">>{tmp_path}/seen")
    slurm = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_SUBMIT_DIR": str(tmp_path)}
    (call,) = recorded(text, tmp_path, programs=("srun",), **slurm)
    values = dict(word.split("=", 1) for word in call if "=" in word)
    assert values["ORBIT_HEAD"] == "n1"
    assert values["no_proxy"] == "localhost,127.0.0.1,::1,n1,n2"
    mode, token = (tmp_path / "seen").read_text().split("\n", 1)
    assert mode.startswith("-rw-------")
    assert len(bytes.fromhex(token)) == 32
    assert not [word for word in call if token in word]
    assert not list(tmp_path.glob(".orbit-demo-*")), "the token outlived the job"
    order = parse(call[call.index("node") + 1 :])
    assert (order.rank, order.meet) == ("env:SLURM_PROCID", "tcp:env:ORBIT_HEAD")


def test_the_token_lies_where_all_nodes_see_it() -> None:
    shared = {"shared": "/data", "mounts": [{"host": "/lustre/${USER}", "container": "/data"}]}
    assert 'mktemp -d /lustre/"${user}"/.orbit-demo' in script(made("pyxis", nodes=2, of_site={"storage": shared}))
    assert 'mktemp -d "$SLURM_SUBMIT_DIR"/.orbit-demo' in script(made("pyxis", nodes=2))
    assert "mktemp" not in script(made("pyxis"))


def test_the_status_of_the_step_is_the_jobs(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("srun() { return 7; }\n" + script(made("prefix")))
    assert subprocess.run(["/bin/sh", str(tmp_path / "script")], check=False).returncode == 7


def test_an_archive_is_unpacked_on_each_node_first(tmp_path: Path) -> None:
    unpack, step = run_by(made("archive", nodes=2, of_site={"storage": {"scratch": "/scratch"}}), tmp_path)
    place = unpack.index("/sw/orbit/bin/orbit")
    assert unpack[place + 1 : place + 4] == ["env", "hydrate", f"/images/{DIGEST.replace(':', '-')}.tar.zst"]
    prefix = unpack[-1]
    assert prefix.startswith("/scratch/orbit-env-")
    assert f"{prefix}/bin/orbit-entrypoint" in step
    assert "--ntasks=2" in unpack


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (f"registry.example.org/team/orbit@{DIGEST}", f"registry.example.org#team/orbit:{DIGEST}"),
        (f"localhost:5000/orbit@{DIGEST}", f"localhost:5000#orbit:{DIGEST}"),
        (f"localhost/orbit@{DIGEST}", f"localhost#orbit:{DIGEST}"),
        (f"team/orbit@{DIGEST}", f"team/orbit:{DIGEST}"),
        (f"orbit@{DIGEST}", f"orbit:{DIGEST}"),
    ],
)
def test_a_digest_is_spelt_as_every_enroot_reads_it(image: str, said: str) -> None:
    assert enroot_uri(image) == said


@pytest.mark.parametrize(
    ("changed", "of_site", "present", "absent"),
    [
        ({}, {}, ["--export=NONE", "--signal=TERM@60", "--no-requeue", "--propagate=NONE"], ["--gres", "--partition"]),
        ({"secrets": ["A", "B"]}, {}, ["#SBATCH --export=A,B\n"], ["NONE\n#SBATCH --mem"]),
        ({"gpus_per_node": 4}, {"slurm": {"gres": "gpu:h100"}}, ["#SBATCH --gres=gpu:h100:4\n"], []),
        ({}, {"slurm": {"options": ["--requeue"]}}, ["#SBATCH --requeue\n"], ["--no-requeue"]),
        ({"minutes": 90, "grace_seconds": 120}, {}, ["#SBATCH --time=90\n", "--signal=TERM@120"], []),
        ({"folder": "/data/x"}, {}, ["--container-workdir=/data/x"], []),
        ({"nodes": 2}, {}, ["--label", "--kill-on-bad-exit=0 --wait=0"], []),
    ],
)
def test_a_line_is_there_when_it_is_needed_and_only_then(
    changed: dict[str, Any], of_site: dict[str, Any], present: list[str], absent: list[str]
) -> None:
    text = script(made("pyxis", of_site=of_site, **changed))
    assert [piece for piece in present if piece not in text] == []
    assert [piece for piece in absent if piece in text] == []


@pytest.mark.parametrize(
    ("form", "of_site", "said"),
    [
        ("pyxis", {"image": IMAGES["apptainer"]}, "image.form = 'sif'"),
        ("none", {"image": IMAGES["pyxis"]}, "image.form = 'registry'"),
        ("pyxis", {"user": {"policy": "fixed"}}, "as who submitted it"),
        ("none", {"image": IMAGES["prefix"], "storage": {"mounts": [{"host": "/a", "container": "/b"}]}}, "/a at /b"),
        ("run", {}, "has no form 'run'"),
    ],
)
def test_what_a_form_cannot_have_is_refused(form: str, of_site: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        render(plan("slurm", of_site=of_site), form)
    assert caught.value.fix


def test_a_runtime_that_slurm_does_not_start_is_refused() -> None:
    with pytest.raises(InputError, match="nothing that Slurm starts"):
        render(plan("slurm", of_site={"image": {"runtime": "docker", "repository": REPOSITORY}}))
