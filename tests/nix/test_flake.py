"""flake.nix, flake.lock and nix/: consistent without nix, and evaluated where nix and the input trees are."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ROOT / "nix" / "tests" / "evaluate.sh"
# Reading needs no store; without this nix would make one at /nix.
NO_STORE = {**os.environ, "NIX_REMOTE": "dummy://"}
INPUT = re.compile(r"^    (?:([\w-]+)\.url|([\w-]+)) = ", re.MULTILINE)


@functools.cache
def lock() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((ROOT / "flake.lock").read_text())
    return data


def declared_inputs() -> dict[str, dict[str, str]]:
    """Input name -> {"url": ..., "nixpkgs": what it follows, ...}, read from flake.nix by its layout (4 spaces)."""
    text = (ROOT / "flake.nix").read_text()
    block = text[text.index("  inputs = {\n") : text.index("\n  };\n")]
    found: dict[str, dict[str, str]] = {}
    names = list(INPUT.finditer(block))
    for number, match in enumerate(names):
        end = names[number + 1].start() if number + 1 < len(names) else len(block)
        body = block[match.start() : end]
        url = re.search(r'url = "([^"]+)"', body)
        assert url is not None, body
        follows = dict(re.findall(r'inputs\.([\w-]+)\.follows = "([\w-]+)"', body))
        found[match[1] or match[2]] = {"url": url[1], **follows}
    return found


def need_nix() -> str:
    nix = shutil.which("nix-instantiate")
    if nix is None:
        pytest.skip("nix is not installed")
    return nix


def test_lock_is_version_7_and_its_root_has_the_inputs_of_the_flake() -> None:
    assert lock()["version"] == 7
    assert lock()["root"] == "root"
    assert lock()["nodes"]["root"]["inputs"] == {name: name for name in declared_inputs()}
    assert len(declared_inputs()) == 5


def test_every_locked_input_has_revision_hash_and_time() -> None:
    nodes = {name: node for name, node in lock()["nodes"].items() if name != "root"}
    assert set(nodes) == set(declared_inputs())
    for name, node in nodes.items():
        locked = node["locked"]
        assert re.fullmatch(r"[0-9a-f]{40}", locked["rev"]), name
        algorithm, _, digest = locked["narHash"].partition("-")
        assert algorithm == "sha256", name
        assert len(base64.b64decode(digest, validate=True)) == 32, name
        assert locked["lastModified"] > 1_700_000_000, name
        assert {key: locked[key] for key in ("owner", "repo", "type")} == {
            key: node["original"][key] for key in ("owner", "repo", "type")
        }, name


def test_the_lock_says_where_the_flake_says() -> None:
    for name, declared in declared_inputs().items():
        original = lock()["nodes"][name]["original"]
        url = f"{original['type']}:{original['owner']}/{original['repo']}"
        assert declared["url"] == url + (f"/{original['ref']}" if "ref" in original else "")


def test_there_is_one_nixpkgs() -> None:
    for name, declared in declared_inputs().items():
        follows = {key: [value] for key, value in declared.items() if key != "url"}
        assert lock()["nodes"][name].get("inputs", {}) == follows
        if name not in ("nixpkgs", "nixpkgs-lib-only"):
            assert follows["nixpkgs"] == ["nixpkgs"]
    repositories = [node["locked"]["repo"] for node in lock()["nodes"].values() if "locked" in node]
    assert repositories.count("nixpkgs") == 1


@pytest.mark.integration
def test_nix_reads_the_inputs_as_we_do() -> None:
    nix = need_nix()
    done = subprocess.run(
        [nix, "--eval", "--strict", "--json", "-E", f"(import {ROOT / 'flake.nix'}).inputs"],
        check=True,
        capture_output=True,
        env=NO_STORE,
    )
    inputs = json.loads(done.stdout)
    flat = {
        name: {"url": given["url"], **{key: value["follows"] for key, value in given.get("inputs", {}).items()}}
        for name, given in inputs.items()
    }
    assert flat == declared_inputs()


@pytest.mark.integration
def test_nix_parses_every_file() -> None:
    nix = need_nix()
    files = [ROOT / "flake.nix", *sorted((ROOT / "nix").rglob("*.nix"))]
    assert len(files) >= 5
    done = subprocess.run([nix, "--parse", *files], capture_output=True, text=True, check=False, env=NO_STORE)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def evaluated() -> dict[str, Any]:
    need_nix()
    inputs = os.environ.get("ORBIT_NIX_INPUTS")
    if not inputs:
        pytest.skip("ORBIT_NIX_INPUTS is not set (a folder with the source trees of flake.lock's inputs; docs/nix.md)")
    done = subprocess.run([HARNESS, inputs], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@pytest.mark.integration
def test_the_shell_evaluates_with_what_the_upper_floor_needs(evaluated: dict[str, Any]) -> None:
    shell = evaluated["shell"]
    assert shell["drvPath"].endswith("-orbit.drv")
    assert {"uv", "python3", "mmdebstrap", "bubblewrap", "skopeo", "patchelf"} <= set(shell["packages"])
    assert shell["env"]["UV_PYTHON"].startswith("/nix/store/")


@pytest.mark.integration
def test_the_shell_has_the_variables_of_the_activation_contract(evaluated: dict[str, Any]) -> None:
    contract = tomllib.loads((ROOT / "env" / "activation.toml").read_text())["variables"]
    general = [v for v in contract if "{" not in v.get("value", "") and "needs" not in v]
    assert len(general) >= 5
    shell = evaluated["shell"]
    for variable in general:
        name, value = variable["name"], variable.get("value", "")
        if variable["how"] == "set":
            assert shell["env"][name] == value
        elif variable["how"] == "default":
            assert f"export {name}=${{{name}:-{value}}}" in shell["hook"].splitlines()
        else:
            assert variable["how"] == "unset"
            assert f"unset {name}" in shell["hook"].splitlines()
    assert set(shell["env"]) == {v["name"] for v in general if v["how"] == "set"} | {"UV_PYTHON"}


@pytest.mark.integration
def test_uv2nix_resolves_the_versions_of_the_lock(evaluated: dict[str, Any]) -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    locked = {package["name"]: package["version"] for package in packages}
    versions = evaluated["lib"]["versions"]
    direct = {need["name"] for need in next(p for p in packages if p["name"] == "orbit")["dependencies"]}
    assert direct <= set(versions)
    assert {name: locked[name] for name in versions} == versions
    assert "torch" not in versions


@pytest.mark.integration
def test_packages_and_checks_reach_their_derivations(evaluated: dict[str, Any]) -> None:
    assert set(evaluated["packages"]) == {"orbit", "default"}
    paths = [*evaluated["packages"].values(), *evaluated["checks"].values()]
    assert len(paths) >= 3
    assert all(path.startswith("/nix/store/") and path.endswith(".drv") for path in paths)


@pytest.mark.integration
def test_the_harness_refuses_a_tree_that_is_not_the_locked_one(tmp_path: Path) -> None:
    need_nix()
    (tmp_path / "nixpkgs-lib-only").mkdir()
    (tmp_path / "nixpkgs-lib-only" / "flake.nix").write_text("{ outputs = _: { }; }\n")
    done = subprocess.run([HARNESS, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "flake.lock says sha256-" in done.stderr


def test_the_harness_names_what_is_missing(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    done = subprocess.run([HARNESS, absent], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert str(absent) in done.stderr or "nix: program not found" in done.stderr
    assert subprocess.run([HARNESS], capture_output=True, check=False).returncode == 2
