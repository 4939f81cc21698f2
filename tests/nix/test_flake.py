"""flake.nix and flake.lock agree with each other, and every Nix file parses."""

from __future__ import annotations

import base64
import functools
import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from tests.nix.nixtools import NO_STORE, ROOT, evaluate, need_nix

INPUT = re.compile(r"^    (?:([\w-]+)\.url|([\w-]+)) = ", re.MULTILINE)
COLUMNS = 130
"""Longest line of a Nix file; nixfmt keeps comments as they are."""


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
    inputs = evaluate("(import ./flake.nix).inputs")
    flat = {
        name: {"url": given["url"], **{key: value["follows"] for key, value in given.get("inputs", {}).items()}}
        for name, given in inputs.items()
    }
    assert flat == declared_inputs()


@pytest.mark.integration
def test_nix_parses_every_file() -> None:
    nix = need_nix()
    files = [ROOT / "flake.nix", *sorted((ROOT / "nix").rglob("*.nix"))]
    assert len(files) >= 15
    done = subprocess.run([nix, "--parse", *files], capture_output=True, text=True, check=False, env=NO_STORE)
    assert done.returncode == 0, done.stderr


@pytest.mark.integration
def test_nix_files_are_formatted() -> None:
    files = [ROOT / "flake.nix", *sorted((ROOT / "nix").rglob("*.nix"))]
    for path in files:
        lines = path.read_text().splitlines()
        assert [line for line in lines if "\t" in line or line != line.rstrip() or len(line) > COLUMNS] == [], path
    nixfmt = shutil.which("nixfmt")
    if nixfmt is None:
        pytest.skip("nixfmt is not installed: blanks, tabs and long lines were looked for, layout was not")
    done = subprocess.run([nixfmt, "--check", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_shell_scripts_are_clean() -> None:
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    scripts = sorted((ROOT / "nix").rglob("*.sh"))
    assert len(scripts) >= 3
    done = subprocess.run([shellcheck, *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.integration
def test_a_part_of_the_checkout_has_what_was_asked_for() -> None:
    """nix/part.nix decides by names alone: tried with its own filter, since making the part would need a store."""
    paths = ["/orbit", "/docs/rules", "/pyproject.toml"]
    words = " ".join(f'"{path}"' for path in paths)
    # the same function with `path` in the place of a builtin that writes to a store
    text = (ROOT / "nix" / "part.nix").read_text().replace("builtins.path {", "{").replace("../.", '"/x"')
    tried = ["/orbit", "/orbit/cli", "/orbits", "/docs", "/docs/rules/a.md", "/docs/nix.md", "/pyproject.toml", "/nix"]
    asked = " ".join(f'"/x{path}"' for path in tried)
    kept = evaluate(f'builtins.filter (path: (({text}) [ {words} ]).filter path "regular") [ {asked} ]')
    assert kept == [f"/x{path}" for path in ("/orbit", "/orbit/cli", "/docs", "/docs/rules/a.md", "/pyproject.toml")]
