"""What the loader finds outside environments: in a whole root file system, and for wheels looked at alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.models.loader import Loader, Resolution, library_path, loader_of
from tests.audit.rooted import SITE as ROOT_SITE
from tests.audit.rooted import read_root, write_root
from tests.audit.support import make_policy, read
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.ld_cache import write_cache

SITE = "lib/python3.12/site-packages"
LIBP = write_elf(soname="libp.so.1")


# --- wheels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requires", "how"),
    [
        (("torch>=2.7",), "outside"),
        (("torch ; python_version >= '3.10'",), "outside"),
        (("torch; extra == 'gpu'",), "missing"),
        (("Vendor>1",), "missing"),
        ((), "missing"),
    ],
)
def test_what_a_requirement_of_a_wheel_can_bring(tmp_path: Path, requires: tuple[str, ...], how: str) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("vendor", {"vendor/__init__.py": b""})
    env.add("user", {"user/_c.so": write_elf(needed=["libc10.so"])})
    facts = read(env.prefix)
    dists = tuple(replace(dist, requires=requires) if dist.name == "user" else dist for dist in facts.dists)
    loader = Loader(replace(facts, kind="wheels", dists=dists), make_policy())
    assert loader.resolve(loader.objects[f"{SITE}/user/_c.so"], "libc10.so").how == how
    installed = Loader(replace(facts, dists=dists), make_policy())
    assert installed.resolve(installed.objects[f"{SITE}/user/_c.so"], "libc10.so").how == "missing"


# --- a whole root file system -----------------------------------------------------------------------------------------

USER = f"{ROOT_SITE}/user/_c.so"


def in_root(
    root: Path, needed: str = "libp.so.1", *, variables: dict[str, str] | None = None, **user: str
) -> Resolution:
    (root / ROOT_SITE / "user").mkdir(parents=True, exist_ok=True)
    (root / USER).write_bytes(write_elf(needed=[needed], **user))  # type: ignore[arg-type]
    loader = loader_of(read_root(root, variables), make_policy())
    return loader.resolve(loader.objects[USER], needed)


EVERYWHERE = {
    "opt/a/libp.so.1": LIBP,
    "opt/b/libp.so.1": LIBP,
    "usr/lib/x86_64-linux-gnu/libp.so.1": LIBP,
    "usr/lib/libp.so.1": LIBP,
}


def test_system_order_is_cache_then_default_folders(tmp_path: Path) -> None:
    cache = write_cache([("libp.so.1", "/opt/b/libp.so.1", "")])
    conf = {"etc/ld.so.conf": b"/opt/a\n"}
    with_cache = in_root(write_root(tmp_path / "1", EVERYWHERE | conf | {"etc/ld.so.cache": cache}))
    assert (with_cache.paths, with_cache.by) == (("opt/b/libp.so.1",), "ld.so.cache")
    with_conf = in_root(write_root(tmp_path / "2", EVERYWHERE | conf))
    assert (with_conf.paths, with_conf.by) == (("opt/a/libp.so.1",), "ld.so.conf")
    with_none = in_root(write_root(tmp_path / "3", EVERYWHERE))
    assert (with_none.paths, with_none.by) == (("usr/lib/x86_64-linux-gnu/libp.so.1",), "default folder")


@pytest.mark.parametrize("cache", [write_cache([("libp.so.1", "/gone/libp.so.1", "")]), write_cache([]), b"damage"])
def test_cache_that_does_not_help_is_passed_over(tmp_path: Path, cache: bytes) -> None:
    resolution = in_root(write_root(tmp_path, EVERYWHERE | {"etc/ld.so.cache": cache}))
    assert (resolution.paths, resolution.by) == (("usr/lib/x86_64-linux-gnu/libp.so.1",), "default folder")


def test_variable_of_the_image_comes_before_runpath_and_the_system(tmp_path: Path) -> None:
    root = write_root(tmp_path, EVERYWHERE)
    variables = {"LD_LIBRARY_PATH": "/none:/opt/b"}
    assert in_root(root, variables=variables, runpath="/opt/a").by == "LD_LIBRARY_PATH"
    assert in_root(root, variables=variables, rpath="/opt/a").paths == ("opt/a/libp.so.1",)
    assert in_root(root, runpath="/opt/a").paths == ("opt/a/libp.so.1",)


def test_variable_keeps_its_empty_elements(tmp_path: Path) -> None:
    write_root(tmp_path, EVERYWHERE)
    assert library_path(read_root(tmp_path, {"LD_LIBRARY_PATH": "/a::/b;"}), make_policy()) == (
        "/a",
        "",
        "/b",
        "",
    )
    assert library_path(read_root(tmp_path, {"LD_LIBRARY_PATH": ""}), make_policy()) == ()


def test_links_of_the_system_are_followed(tmp_path: Path) -> None:
    """Debian's /lib is a link to usr/lib, and a soname is a link to the file with the release."""
    files = {"usr/lib/x86_64-linux-gnu/libq.so.1.2.3": write_elf(soname="libq.so.1")}
    links = {"lib": "usr/lib", "usr/lib/x86_64-linux-gnu/libq.so.1": "libq.so.1.2.3"}
    root = write_root(tmp_path, files, links)
    assert in_root(root, "libq.so.1").paths == ("usr/lib/x86_64-linux-gnu/libq.so.1.2.3",)


def test_base_libraries_of_an_image_must_really_be_there(tmp_path: Path) -> None:
    root = write_root(tmp_path, EVERYWHERE)
    assert in_root(root, "libstdc++.so.6").how == "missing"
    assert in_root(root, "libcuda.so.1").how == "driver"


def test_search_folders_in_the_loaders_order(tmp_path: Path) -> None:
    root = write_root(tmp_path, EVERYWHERE | {"etc/ld.so.conf": b"/opt/a\n/opt/b\n"})
    loader = loader_of(read_root(root, {"LD_LIBRARY_PATH": "/opt/b:/none"}), make_policy())
    assert list(loader.search_folders()) == [
        ("opt/b", "LD_LIBRARY_PATH"),
        ("opt/a", "ld.so.conf"),
        ("usr/lib/x86_64-linux-gnu", "default folder"),
        ("usr/lib", "default folder"),
    ]


def test_one_loader_serves_all_rules(tmp_path: Path) -> None:
    facts, policy = read_root(write_root(tmp_path, EVERYWHERE)), make_policy()
    assert loader_of(facts, policy) is loader_of(facts, policy)
    assert loader_of(facts, make_policy()) is not loader_of(facts, policy)
