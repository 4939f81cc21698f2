"""What kind of file a path is, and which GPU uses which code."""

from __future__ import annotations

import pytest

from orbit.image.inspect.kinds import KINDS, GpuUse, kind_of, loose_arch, targets_of, users_of
from orbit.profile.model import load_profile


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/x.py", "python"), ("a/x.PYI", "python"), ("a/__pycache__/x.cpython-312.pyc", "bytecode"),
        ("inc/x.cuh", "header"), ("lib/libx.a", "static"), ("a/x.jar", "archive"), ("a/weights", "data"),
        ("a/x.json", "data"), ("a/tests/x.py", "tests"), ("torch/testing/x.py", "python"),
        ("usr/share/man/x.1", "docs"),
        ("a/README.md", "docs"), ("a/LICENSE", "licence"), ("a/LICENSE.txt", "licence"), ("usr/share/doc/x/copyright",
        "licence"), ("x-1.dist-info/licenses/a/b", "licence"), ("x-1.dist-info/RECORD", "metadata"),
        ("var/lib/dpkg/info/x.list", "metadata"), ("a/k.cubin", "device"), ("a/licenser.py", "python"),
    ],
)  # fmt: skip
def test_kind_of(path: str, kind: str) -> None:
    assert kind_of(path, is_elf=False) == kind
    assert kind in KINDS


def test_elf_files_are_host_code_whatever_their_name() -> None:
    assert kind_of("a/tests/x.so", is_elf=True) == "host"


def test_loose_code_is_for_what_its_name_says() -> None:
    assert loose_arch("x/fmhaSm100aKernel.cubin") == "sm_100 (by file name)"
    assert loose_arch("sm90/kernel.cubin") == "sm_90 (by file name)"
    assert loose_arch("x/kernel.cubin") == "not known"


def test_targets_come_from_the_profile_else_from_labels() -> None:
    labels = {"io.orbit.targets": "h100=sm_90a b200=sm_100a odd=thing"}
    assert targets_of(labels, None) == (GpuUse(name="h100", arch="sm_90a"), GpuUse(name="b200", arch="sm_100a"))
    assert [target.name for target in targets_of({}, load_profile("cu130"))] == ["h100", "b200"]
    assert targets_of({}, None) == ()


def test_who_uses_an_architecture() -> None:
    targets = (GpuUse(name="h100", arch="sm_90a"), GpuUse(name="b200", arch="sm_100a"))
    assert users_of("sm_90a", targets) == (("h100",), ())
    assert users_of("sm_80", targets) == ((), ())
    assert users_of("compute_90", targets) == ((), ("h100", "b200"))
    assert users_of("lto_75", targets) == ((), ("h100", "b200"))
    assert users_of("sm_100 (by file name)", targets) == (("b200",), ())
    assert users_of("not known", targets) == ((), ())
