"""What variables and configuration mean: places, programs, permissions, what an entry point sets."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.facts import FileFact
from orbit.audit.models import settings
from orbit.audit.models.settings import (
    EXECUTE,
    READ,
    WRITE,
    accounts,
    configured_account,
    entry_assignments,
    find_program,
    home_folder,
    load_settings,
    locate,
    may,
    settings_of,
)
from orbit.errors import InputError
from tests.audit.rules.settings.rootfs import PREFIX, Rootfs
from tests.audit.support import make_policy

ENTRY = f"{PREFIX}/bin/start-entrypoint"


@pytest.fixture
def rootfs(tmp_path: Path) -> Rootfs:
    return Rootfs(tmp_path / "root")


def test_the_data_loads_and_no_variable_is_listed_twice_for_one_value() -> None:
    found = load_settings()
    assert len(found.baked) >= 15
    pairs = [(name, item.values, item.unless) for item in found.baked for name in item.names]
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize(
    ("old", "new", "words"), [("schema = 1", "schema = 2", "schema 2"), ("hf_[A", "hf_([A", "Hugging")]
)
def test_wrong_data_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, words: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(settings.data_file("kernels", "expectations", "settings.toml").read_text().replace(old, new, 1))
    monkeypatch.setattr(settings, "data_file", lambda *parts: path)
    with pytest.raises(InputError, match=words):
        settings.load_settings.__wrapped__()


def test_places(rootfs: Rootfs) -> None:
    image, policy = rootfs.facts(), make_policy()
    assert locate(image, policy, "/bin/sh").path == "bin/sh"
    assert locate(image, policy, "/bin/../bin//sh").path == "bin/sh"
    assert locate(image, policy, "/gone").how == "missing"
    assert locate(image, policy, "bin/sh").how == "missing"
    inside = dataclasses.replace(image, tree=dataclasses.replace(image.tree, rooted=False))
    assert locate(inside, policy, "/bin/sh").how == "outside"
    assert locate(inside, policy, "/opt/orbit/bin").path == "bin"
    assert locate(inside, policy, "/opt/orbits/bin").how == "outside"


def test_programs_come_from_the_first_folder_that_has_an_executable_one(rootfs: Rootfs) -> None:
    rootfs.write("usr/bin/tool", b"x", 0o644)
    rootfs.write("bin/tool", b"x", 0o755)
    policy = make_policy()
    assert find_program(rootfs.facts(), policy, "tool", 65534) == ("bin/tool", "")
    (rootfs.root / "bin/tool").unlink()
    assert find_program(rootfs.facts(), policy, "tool", 65534) == ("", "usr/bin/tool")
    assert find_program(rootfs.facts(), policy, "gone", 65534) == ("", "")


def test_permissions() -> None:
    def fact(mode: int) -> FileFact:
        return FileFact(mode, 7, 8, 1, (0, 0, 0, 0))

    assert may(fact(0o100750), 7, READ | WRITE | EXECUTE)
    assert may(fact(0o100750), 9, READ | EXECUTE, gid=8)
    assert not may(fact(0o100750), 9, READ)
    assert may(fact(0o100600), 0, READ | WRITE)
    assert not may(fact(0o100600), 0, EXECUTE)
    assert may(fact(0o040600), 0, EXECUTE)


def test_accounts(rootfs: Rootfs) -> None:
    rootfs.write(
        "etc/passwd",
        b"root:x:0:0:root:/root:/bin/sh\nbig:x:"
        + b"9" * 5000
        + b":0:::\n\xff:x:7:7\nann:x:1000:1000::/home/ann:\nbad:x:a:b:::\n",
    )
    assert [account.name for account in accounts(rootfs.facts())] == ["root", "ann"]
    account = configured_account(rootfs.facts(user="ann"))
    assert account is not None
    assert account.home == "/home/ann"
    assert configured_account(rootfs.facts(user="bob")) is None
    assert configured_account(rootfs.facts(user="9" * 5000)) is None
    assert home_folder(rootfs.facts(user="ann")) == "/home/ann"
    assert home_folder(rootfs.facts({"HOME": "/data"}, user="ann")) == "/data"


SCRIPT = b"""#!/bin/sh
# export HIDDEN=1
export ONE=1 TWO="a b" THREE='c'
FOUR=${FOUR:-x}; FIVE=$(id -u)
: "${SIX:=six}"
if [ "$SEVEN" = 1 ]; then exec "$@"; fi
. "$share/more.sh"
"""


def test_what_an_entry_point_sets(rootfs: Rootfs) -> None:
    rootfs.write(ENTRY, SCRIPT, 0o755)
    rootfs.write(f"{PREFIX}/share/orbit/more.sh", b'export NINE="$cache"/nine\n. more.sh\n. "$share/gone.sh"\n')
    facts = rootfs.facts({"ONE": "0", "TEN": "10"})
    found = dict(entry_assignments(facts))
    assert found["ONE"] == "1"
    assert (found["TWO"], found["THREE"], found["SIX"]) == ("a b", "c", "six")
    assert found["NINE"].startswith("$cache")
    assert not {"HIDDEN", "SEVEN"} & found.keys()
    values = settings_of(facts)
    assert (values["ONE"].origin, values["TEN"].origin) == ("entry point", "Env")
    assert values["ONE"].is_known
    assert not values["FIVE"].is_known
    assert not values["NINE"].is_known


def test_an_image_without_a_script_sets_nothing(rootfs: Rootfs) -> None:
    assert list(entry_assignments(rootfs.facts(entrypoint=("/bin/sh",)))) == []
    assert list(entry_assignments(rootfs.facts(entrypoint=(), command=()))) == []
    assert list(entry_assignments(rootfs.facts(entrypoint=("/gone",)))) == []


@given(st.binary(max_size=300))
def test_any_script_is_read(data: bytes) -> None:
    names = [name for name, _value in settings.ASSIGNMENT.findall(data)]
    assert all(re.fullmatch(rb"[A-Za-z_]\w*", name) for name in names)


def test_a_hostile_script_ends() -> None:
    for data in (
        b"export " * 50_000,
        b'A="' * 50_000,
        b"a" * 200_000,
        b": ${" * 50_000,
        b"\n. " * 50_000,
        b"\n" * 300_000,
    ):
        assert isinstance(
            settings.ASSIGNMENT.findall(settings.COMMENT.sub(b"", data)) + settings.SOURCED.findall(data), list
        )
