"""Several nodes on one machine: the compose file says what the plan says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.launch.node.options import parse
from orbit.launch.plan import LaunchPlan
from orbit.launch.render import render
from orbit.launch.render.words import environment
from tests.launch.render.golden import FOLDER, check_golden
from tests.launch.render.plans import DIGEST, REPOSITORY, plan
from tests.launch.render.scripts import check_shell, recorded, steady

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


def document(made: LaunchPlan) -> dict[str, Any]:
    """The compose file as YAML."""
    files = render(made, "compose")
    assert [file.name for file in files] == ["demo.sh", "compose.yaml"]
    found: dict[str, Any] = yaml.safe_load(files[1].text)
    return found


@pytest.mark.parametrize("name", ["plain", "caller"])
def test_the_files_are_the_golden_ones(name: str, tmp_path: Path) -> None:
    of_site: dict[str, Any] = {"plain": {}, "caller": {"user": {"policy": "caller"}, "storage": {"scratch": "/s"}}}[
        name
    ]
    secrets = ["HF_TOKEN"] if name == "caller" else []
    files = steady(plan(nodes=2, gpus_per_node=2, secrets=secrets, of_site=of_site), "compose")
    check_golden(f"compose-{name}", files)
    check_shell(files[0].text, tmp_path)


def test_each_node_has_its_rank_its_gpus_and_its_share() -> None:
    services = document(plan(nodes=2, gpus_per_node=4))["services"]
    orders = [parse(one["command"][3:]) for one in services.values()]
    assert [(order.rank, order.meet, order.cpus, order.memory_gib) for order in orders] == [
        ("0", "tcp:node-0", 48, 500), ("1", "tcp:node-0", 48, 500),
    ]  # fmt: skip
    devices = [one["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for one in services.values()]
    assert devices == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
    assert {one["image"] for one in services.values()} == {f"{REPOSITORY}@{DIGEST}"}
    assert {one["hostname"] for one in services.values()} == {"node-0", "node-1"}


@given(st.dictionaries(st.sampled_from(["A", "B"]), TEXT), st.lists(TEXT.filter(bool), max_size=2))
@settings(max_examples=25)
def test_compose_gives_back_every_character(variables: dict[str, str], words: list[str]) -> None:
    made = plan(nodes=2, environment=variables, command=["/bin/x", *words])
    for service in document(made)["services"].values():
        found = {name: value.replace("$$", "$") for name, value in service["environment"].items()}
        wanted = environment(made, near=["node-0", "node-1"])
        assert found == {"ORBIT_STATE": "/var/tmp/orbit", "ORBIT_OWNER_FILE": "/run/orbit/owner"} | wanted
        command = [word.replace("$$", "$") for word in service["command"]]
        assert parse(command[3:]).command == ("/bin/x", *words)
        assert not [
            value for value in (*service["environment"].values(), *service["command"]) if "$" in value.replace("$$", "")
        ]


def test_nodes_are_reached_past_the_proxy() -> None:
    services = document(plan(nodes=2, of_site={"network": {"proxy": "http://p:1"}}))["services"]
    assert services["node-1"]["environment"]["no_proxy"] == "localhost,127.0.0.1,::1,node-0,node-1"


def test_the_script_makes_secrets_and_a_token_and_starts_it(tmp_path: Path) -> None:
    made = plan(nodes=2, secrets=["HF_TOKEN"])
    (call,) = recorded(render(made, "compose")[0].text, tmp_path, programs=("docker",), HF_TOKEN="s")
    assert call[1:4] == ["compose", "--project-name", "demo"]
    private = tmp_path / "private"
    assert (private.stat().st_mode & 0o777, (private / "owner").stat().st_mode & 0o777) == (0o700, 0o600)
    assert (private / "HF_TOKEN").read_text() == "s"
    token = (private / "owner").read_text()
    assert len(token) == 64
    assert int(token, 16) > 0
    assert set(document(made)["secrets"]) == {"owner", "HF_TOKEN"}


@pytest.mark.parametrize(
    ("job", "of_site", "said"),
    [
        ({"gpus_per_node": 8}, {}, "16 GPUs are asked"),
        ({"cpus_per_node": 96}, {}, "96 CPUs"),
        ({"memory_gib": 600}, {}, "600 GiB"),
        ({"shm_gib": 501}, {}, "501 GiB of /dev/shm"),
        ({}, {"network": {"host_network": True}}, "host_network = true"),
    ],
)
def test_what_one_machine_does_not_have_is_refused(job: dict[str, Any], of_site: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        render(plan(nodes=2, of_site=of_site, **job), "compose")
    assert caught.value.fix


def test_the_compose_files_are_what_the_specification_says() -> None:
    name = os.environ.get("ORBIT_COMPOSE_SCHEMA", "")
    if not name:
        pytest.skip("ORBIT_COMPOSE_SCHEMA names no compose-spec.json")
    schema = json.loads(Path(name).read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for folder in sorted(FOLDER.glob("compose-*")):
        found = yaml.safe_load((folder / "compose.yaml").read_text())
        assert [error.message for error in validator.iter_errors(found)] == []
        found["services"]["node-0"]["no_such_key"] = 1
        assert list(validator.iter_errors(found))


def test_compose_itself_reads_every_value_as_it_is_meant(tmp_path: Path) -> None:
    """``config`` prints what compose understood, variables replaced; the old program is enough for that."""
    client = shutil.which("docker")
    plugin = client and subprocess.run([client, "compose", "version"], capture_output=True, check=False).returncode == 0
    words = [client, "compose"] if client and plugin else [shutil.which("docker-compose")]
    if words[0] is None:
        pytest.skip("no compose is installed")
    odd = 'it\'s $HOME ${X} $$,\n "x" \\ `id` #:{} \u00e4\u20ac'
    made = plan(
        nodes=2,
        environment={"ODD": odd},
        command=["/bin/x", odd],
        secrets=["KEY"],
        of_site={"user": {"policy": "caller"}},
    )
    (tmp_path / "compose.yaml").write_text(render(made, "compose")[1].text)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ORBIT_PRIVATE": "/private", "ORBIT_CALLER": "7:8"}
    done = subprocess.run(
        [*map(str, words), "-f", "compose.yaml", "config"], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found = yaml.safe_load(done.stdout)
    for service in found["services"].values():
        assert service["environment"]["ODD"].replace("$$", "$") == odd
        assert service["command"][-1].replace("$$", "$") == odd
        assert service["user"] == "7:8"
    assert found["secrets"]["KEY"]["file"] == "/private/KEY"
