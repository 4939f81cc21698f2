"""Which environments an image holds, and which one it is about."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from orbit.audit.binary.fatbin import Container, Image
from orbit.audit.facts import FileFact, SharedObject, Tree
from orbit.audit.images.image_layout import home_of, image_layout
from orbit.errors import InputError

SHOWN = (
    "opt/orbit/lib/python3.12/site-packages",
    "usr/lib/python3/dist-packages",
    "usr/local/lib/python3.11/dist-packages",
)
BINS = ("opt/orbit/bin/python", "usr/bin/python", "usr/local/bin/python")


def tree(*paths: str, links: dict[str, str] | None = None) -> Tree:
    entries: dict[str, FileFact] = {}
    links = links or {}
    for path in (*paths, *links):
        parts = path.split("/")
        for length in range(len(parts)):
            entries["/".join(parts[:length])] = FileFact(stat.S_IFDIR | 0o755, 0, 0, 0, (0, 0, 0, 0))
        kind = stat.S_IFLNK if path in links else stat.S_IFREG
        entries[path] = FileFact(kind | 0o644, 0, 0, 1, (0, 0, 0, 0))
    return Tree(entries, links, (), (), rooted=True)


def installed(site: str, name: str = "x") -> str:
    return f"{site}/{name}-1.dist-info/RECORD"


def device(path: str, size: int) -> SharedObject:
    image = Image("elf", "sm_90a", 0, size, 0, "", 0)
    return SharedObject(path, 62, (Container(".nv_fatbin", 0, 0, (image,)),), None)


def layout(found: Tree, objects: Sequence[SharedObject] = (), texts: dict[str, bytes] | None = None, **variables: str):  # type: ignore[no-untyped-def]
    return image_layout(found, objects, variables, texts or {}, "3.12")


def test_an_environment_of_orbit() -> None:
    site = SHOWN[0]
    found = layout(tree(installed(site)), texts={"opt/orbit/pyvenv.cfg": b"home = /usr/bin\n"})
    assert (found.prefix, found.site, found.others, found.home) == (Path("/"), site, (), "opt/orbit")
    assert (found.python, found.base_interpreter) == ((3, 12), "/usr/bin")


def test_a_variable_names_the_main_one() -> None:
    files = tree(*[installed(site) for site in SHOWN])
    assert layout(files, ORBIT_PREFIX="/opt/orbit").site == SHOWN[0]
    assert layout(files, VIRTUAL_ENV="/usr/local").site == SHOWN[2]
    assert layout(files, VIRTUAL_ENV="/usr/local", ORBIT_PREFIX="/opt/orbit").site == SHOWN[0]
    assert layout(files, CONDA_PREFIX="/usr").others == (SHOWN[0], SHOWN[2])


def test_else_the_one_with_most_device_code_then_the_path() -> None:
    files = tree(*[installed(site) for site in SHOWN], *BINS)
    objects = [device(f"{SHOWN[2]}/a.so", 10), device(f"{SHOWN[0]}/b.so", 5)]
    assert layout(files, objects, PATH="/opt/orbit/bin").site == SHOWN[2]
    assert layout(files, PATH="/nowhere:/usr/local/bin:/usr/bin").site == SHOWN[2]
    assert layout(files, PATH="/usr/bin:/usr/local/bin", VIRTUAL_ENV="/not/there").site == SHOWN[1]


def test_a_variable_may_name_a_link() -> None:
    files = tree(*[installed(site) for site in SHOWN], links={"env": "/usr/local"})
    assert layout(files, VIRTUAL_ENV="/env").site == SHOWN[2]


def test_what_only_looks_like_an_environment_is_none() -> None:
    site = "opt/conda/lib/python3.12/site-packages"
    files = tree(
        installed(site),
        installed(f"{site}/vendored/lib/python3.12/site-packages"),
        installed("opt/conda/pkgs/numpy-1-py312/lib/python3.12/site-packages"),
        installed("root/.cache/uv/archive-v0/abc/lib/python3.12/site-packages"),
        "opt/empty/lib/python3.12/site-packages/notes.txt",
    )
    assert layout(files).sites == (site,)
    assert layout(tree(installed(site), installed("opt/conda/envs/e/lib/python3.11/site-packages"))).others


def test_the_python_of_debian_is_the_one_that_is_linked() -> None:
    files = tree(installed(SHOWN[1]), "usr/bin/python3.11", links={"usr/bin/python3": "python3.11"})
    assert layout(files).python == (3, 11)
    assert layout(tree(installed(SHOWN[1]))).python == (3, 12)


def test_an_image_without_distributions_is_refused() -> None:
    with pytest.raises(InputError, match="no installed Python distribution"):
        layout(tree("usr/lib/python3.12/site-packages/notes.txt"))


@pytest.mark.parametrize(
    ("site", "home"),
    [("opt/x/lib/python3.12/site-packages", "opt/x"), ("lib64/python3.9/site-packages", ""), ("opt/site-packages", "")],
)
def test_home(site: str, home: str) -> None:
    assert home_of(site) == home
