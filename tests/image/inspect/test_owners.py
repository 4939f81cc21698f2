"""Who a file belongs to: RECORD, dpkg's lists, folders."""

from __future__ import annotations

import pytest

from orbit.audit.images.opened import open_image
from orbit.audit.images.overlay import stack
from orbit.core.console import Silent
from orbit.image.inspect.owners import DEBIAN, OTHER, PYTHON, Owner, Owners, debian_versions
from orbit.image.inspect.weigh import owners_of_image
from tests.image.inspect.material import STATUS, image
from tests.writers.images import SITE


@pytest.fixture(scope="module")
def owners(tmp_path_factory: pytest.TempPathFactory) -> Owners:
    opened = open_image(str(image(tmp_path_factory.mktemp("owners"))), Silent())
    facts, _ = opened.facts([0, 1], None, Silent())
    layers = [facts[0], facts[1]]
    return owners_of_image(layers, stack(layers))


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        (f"{SITE}/gpu/_c.so", Owner(PYTHON, "gpu", "1.0")),
        (f"{SITE}/gpu/__pycache__/__init__.cpython-312.pyc", Owner(PYTHON, "gpu", "1.0")),
        (f"{SITE}/gpu-1.0.dist-info/INSTALLER", Owner(PYTHON, "gpu", "1.0")),
        (f"{SITE}/stray.txt", Owner(OTHER, f"in no RECORD (/{SITE})")),
        ("usr/lib/libfoo.so.1", Owner(DEBIAN, "libfoo", "1.2-3")),
        ("usr/share/doc/libfoo/copyright", Owner(DEBIAN, "libfoo", "1.2-3")),
        ("var/lib/dpkg/info/libfoo:amd64.md5sums", Owner(DEBIAN, "libfoo", "1.2-3")),
        ("var/lib/dpkg/info/other.list", Owner(DEBIAN, "other", "")),
        ("opt/orbit/lib/python3.12/os.py", Owner(OTHER, "CPython (/opt/orbit)")),
        ("opt/orbit/bin/python3.12", Owner(OTHER, "CPython (/opt/orbit)")),
        ("opt/orbit/bin/tool", Owner(OTHER, "/opt/orbit")),
        ("etc/motd", Owner(OTHER, "/etc")),
        ("top", Owner(OTHER, "/")),
    ],
)
def test_owner_of(owners: Owners, path: str, owner: Owner) -> None:
    assert owners.of(path) == owner


def test_folders_in_lists_belong_to_nobody(owners: Owners) -> None:
    assert owners.of("usr/lib").kind == OTHER


def test_versions_of_installed_packages_only() -> None:
    assert debian_versions(STATUS) == {"libfoo": "1.2-3"}
    assert debian_versions(b"") == debian_versions(b"\xff\0: x\n\n\n") == {}


def test_titles() -> None:
    assert (Owner(PYTHON, "rich", "14.0").title, Owner(OTHER, "/etc").title) == ("rich 14.0", "/etc")
