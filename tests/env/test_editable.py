"""orbit.env.editable: checkouts in development mode on top of an environment, with its own interpreter as the judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from orbit.audit.installed.import_path import finder_mapping
from orbit.core.console import Silent
from orbit.core.proc import clean_env
from orbit.env.archive import is_editable, plan_archive
from orbit.env.editable import apply, find_modules, read_project
from orbit.env.installed import digest_of, read_installed
from orbit.errors import InputError, RefusedError

from .archives import make_archive, unpack
from .wheels import install_by_hand

SITE = "lib/python3.12/site-packages"
STATIC = '[project]\nname = "{name}"\nversion = "2.0"\n'


def make_checkout(folder: Path, pyproject: str, files: Mapping[str, str]) -> Path:
    for name, text in {"pyproject.toml": pyproject, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def make_prefix(folder: Path) -> Path:
    """A prefix whose site-packages the running interpreter can be told to use."""
    (folder / SITE).mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python3.12").symlink_to(sys.executable)
    return folder


def ask(prefix: Path, program: str) -> str:
    """What a fresh interpreter that has this site-packages prints."""
    head = f"import site; site.addsitedir({str(prefix / SITE)!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", head + program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("settings", "files", "how"),
    [
        ("", {"src/my_pkg/__init__.py": "X = 1\n"}, "path"),
        ("", {"python/my_pkg/__init__.py": "X = 1\n"}, "path"),
        ("", {"my_pkg/__init__.py": "X = 1\n", "extras_of_c/__init__.py": ""}, "finder"),
        ("", {"my_pkg.py": "X = 1\n", "setup_of_c.py": ""}, "finder"),
        ('[tool.hatch.build.targets.wheel]\npackages = ["co/my_pkg"]\n', {"co/my_pkg/__init__.py": "X = 1\n"}, "path"),
        ('[tool.setuptools.packages.find]\nwhere = ["inner"]\n', {"inner/my_pkg/__init__.py": "X = 1\n"}, "path"),
        ('[tool.setuptools]\npackages = ["my_pkg", "my_pkg.sub"]\n', {"my_pkg/__init__.py": "X = 1\n"}, "finder"),
        ('[tool.setuptools.package-dir]\n"" = "lib9"\n', {"lib9/my_pkg/__init__.py": "X = 1\n"}, "path"),
    ],
)  # fmt: skip
def test_the_working_copy_is_what_is_imported(tmp_path: Path, settings: str, files: dict[str, str], how: str) -> None:
    root = make_checkout(tmp_path / "checkout", STATIC.format(name="My-Pkg") + settings, files)
    prefix = make_prefix(tmp_path / "env")
    done = apply(prefix, read_project(root))
    assert (done.name, done.version, done.how, done.replaced) == ("my-pkg", "2.0", how, "")
    assert ask(prefix, "import my_pkg; print(my_pkg.X)") == "1"
    source = next(path for path in root.rglob("*.py") if "my_pkg" in str(path.relative_to(root)))
    source.write_text("X = 2\n")
    assert ask(prefix, "import my_pkg; print(my_pkg.X)") == "2"
    assert ask(prefix, "import importlib.metadata as m; print(m.version('my-pkg'))") == "2.0"
    program = "import importlib.util as u; print(u.find_spec('extras_of_c'), u.find_spec('setup_of_c'))"
    assert ask(prefix, program) == "None None"


def test_a_part_of_a_namespace_joins_the_rest(tmp_path: Path) -> None:
    """Megatron: ``megatron/core`` in the checkout, other ``megatron`` packages installed."""
    settings = '[tool.setuptools.packages.find]\ninclude = ["megatron.core", "megatron.core.*"]\n'
    files = {"megatron/core/__init__.py": "X = 'mine'\n"}
    root = make_checkout(tmp_path / "c", STATIC.format(name="megatron-core") + settings, files)
    prefix = make_prefix(tmp_path / "env")
    install_by_hand(prefix / SITE, "megatron-other", "1", {"megatron/other/__init__.py": b"Y = 'theirs'\n"})
    install_by_hand(prefix / SITE, "megatron-core", "1.0", {"megatron/core/__init__.py": b"X = 'wheel'\n"})
    assert apply(prefix, read_project(root)).how == "path"
    assert ask(prefix, "import megatron.core as a, megatron.other as b; print(a.X, b.Y)") == "mine theirs"


def test_it_takes_the_place_of_a_wheel_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    prefix = make_prefix(tmp_path / "env")
    site = prefix / SITE
    shared = {"shared.py": b"S = 1\n"}
    install_by_hand(site, "tool", "1.0", {"tool/__init__.py": b"X = 'wheel'\n", "tool/deep/x.py": b"", **shared},
                    {"tool": "tool:main"})  # fmt: skip
    install_by_hand(site, "other", "1.0", shared)
    (site / "../../../bin/tool").write_text("#!/bin/sh\n")
    with open(site / "tool-1.0.dist-info" / "RECORD", "a") as record:
        record.write("../../../bin/tool,,\n/etc/hostname,,\n../../../../outside,,\n")
    (tmp_path / "outside").write_text("mine")
    root = make_checkout(
        tmp_path / "c",
        '[project]\nname = "tool"\ndynamic = ["version", "dependencies"]\n'
        '[project.scripts]\nnew-tool = "tool.cli:main"\n',
        {"src/tool/__init__.py": "X = 'mine'\n", "src/tool/cli.py": "def main():\n    print('ran')\n"},
    )
    done = apply(prefix, read_project(root))
    assert (done.version, done.replaced) == ("1.0", "1.0")
    assert ask(prefix, "import tool, shared; print(tool.X, shared.S)") == "mine 1"
    assert not (site / "tool").exists()
    assert sorted(os.listdir(prefix / "bin")) == ["new-tool", "python3.12"]
    assert (tmp_path / "outside").read_text() == "mine"
    assert [dist.name for dist in read_installed(site)] == ["other", "tool"]


def test_metadata_scripts_and_record_are_those_of_an_editable_install(tmp_path: Path) -> None:
    root = make_checkout(
        tmp_path / "a checkout",
        STATIC.format(name="tool") + 'requires-python = ">=3.10"\ndependencies = ["msgspec>=0.20"]\n'
        '[project.scripts]\ntool = "tool:Main.run"\n[project.entry-points."my.group"]\nplug = "tool:plug"\n',
        {"tool/__init__.py": "class Main:\n    @staticmethod\n    def run():\n        print('ran')\n"},
    )
    prefix = make_prefix(tmp_path / "env")
    apply(prefix, read_project(root))
    info = prefix / SITE / "tool-2.0.dist-info"
    assert is_editable(info)
    assert json.loads((info / "direct_url.json").read_text()) == {"dir_info": {"editable": True}, "url": root.as_uri()}
    metadata = (info / "METADATA").read_text()
    assert "Requires-Dist: msgspec>=0.20\n" in metadata
    assert "Requires-Python: >=3.10\n" in metadata
    assert (
        info / "entry_points.txt"
    ).read_text() == "[console_scripts]\ntool = tool:Main.run\n\n[my.group]\nplug = tool:plug\n"
    (dist,) = read_installed(prefix / SITE)
    for line in dist.lines:
        path = Path(os.path.normpath(prefix / SITE / line.path))
        assert path.is_file(), line.path
        if line.digest:
            assert (line.digest, line.size) == digest_of(path)
    finder = (prefix / SITE / "__editable___tool_2_0_finder.py").read_bytes()
    assert finder_mapping(finder) == {"tool": f"{root}/tool"}
    env = clean_env({"PYTHONPATH": str(prefix / SITE)})
    script = prefix / "bin" / "tool"
    head = f"import runpy, site; site.addsitedir({str(prefix / SITE)!r})\n"
    head += f"runpy.run_path({str(script)!r}, run_name='__main__')"
    assert (
        subprocess.run([sys.executable, "-c", head], capture_output=True, text=True, env=env, check=True).stdout
        == "ran\n"
    )
    assert script.read_bytes().startswith(b"#!/bin/sh\n")


@pytest.mark.parametrize(
    ("pyproject", "files", "says"),
    [
        (None, {}, "no pyproject.toml"),
        ("[project]\n", {}, "no \\[project\\] with a name"),
        ("[build-system]\n", {}, "no \\[project\\] with a name"),
        ("not toml", {}, "not valid TOML"),
        (STATIC.format(name="x"), {}, "no package of x found"),
        ('[project]\nname = "x"\nversion = 3\n', {"x/__init__.py": ""}, "version = 3"),
        ('[project]\nname = "../x"\n', {"x/__init__.py": ""}, "with a name"),
    ],
)
def test_what_cannot_be_installed_is_bad_input(
    tmp_path: Path, pyproject: str | None, files: dict[str, str], says: str
) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    if pyproject is not None:
        make_checkout(folder, pyproject, files)
    with pytest.raises(InputError, match=says):
        read_project(folder)


def test_a_computed_version_needs_an_installed_one(tmp_path: Path) -> None:
    root = make_checkout(tmp_path / "c", '[project]\nname = "x"\ndynamic = ["version"]\n', {"x/__init__.py": ""})
    with pytest.raises(InputError, match="its version is computed"):
        apply(make_prefix(tmp_path / "env"), read_project(root))


@pytest.mark.parametrize("value", ["os;evil", "no colon", "a:b; import x"])
def test_scripts_are_names_and_nothing_else(tmp_path: Path, value: str) -> None:
    root = make_checkout(
        tmp_path / "c", STATIC.format(name="x") + f'[project.scripts]\n"{value}" = "{value}"\n', {"x/__init__.py": ""}
    )
    with pytest.raises(InputError, match="module:function"):
        apply(make_prefix(tmp_path / "env"), read_project(root))


def test_modules_are_looked_for_where_projects_have_them(tmp_path: Path) -> None:
    make_checkout(tmp_path / "two", "", {"src/a/__init__.py": "", "src/b/__init__.py": ""})
    tool = {"setuptools": {"packages": {"find": {"where": ["src"]}}}}
    assert find_modules(tmp_path / "two", "a", tool) == (tmp_path / "two" / "src", ())
    narrow = {"setuptools": {"packages": {"find": {"where": ["src"], "include": ["a*"]}}}}
    assert find_modules(tmp_path / "two", "a", narrow) == (tmp_path / "two" / "src", ("a",))


def test_hydrate_puts_a_checkout_on_top_and_says_which_is_missing(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "a")
    root = make_checkout(tmp_path / "c", STATIC.format(name="torch"), {"torch/__init__.py": "answer = 'mine'\n"})
    done = unpack(archive, tmp_path / "env", root)
    assert [(item.name, item.version, item.replaced) for item in done.editables] == [("torch", "2.0", "2.11.0")]
    assert ask(tmp_path / "env", "import torch; print(torch.answer)") == "mine"
    with pytest.raises(RefusedError, match="torch is a checkout there, and a wheel"):
        plan_archive(tmp_path / "env", None, progress=Silent())
    extra = make_checkout(tmp_path / "d", STATIC.format(name="mine"), {"mine/__init__.py": ""})
    unpack(archive, tmp_path / "second", extra)
    plan = plan_archive(tmp_path / "second", None, progress=Silent())
    assert [(item.name, item.version) for item in plan.manifest.editables] == [("mine", "2.0")]
    assert not any("mine" in member.name for member in plan.members)
    from orbit.env.archive import write_archive_file

    write_archive_file(plan, tmp_path / "with.tar.zst", progress=Silent())
    without = unpack(tmp_path / "with.tar.zst", tmp_path / "third")
    assert [skip.what for skip in without.skipped] == ["mine 2.0"]
    assert unpack(tmp_path / "with.tar.zst", tmp_path / "fourth", extra).skipped == ()
