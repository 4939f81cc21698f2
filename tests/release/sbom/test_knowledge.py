"""The file of what is known about licences."""

from __future__ import annotations

import pytest

from orbit.release.sbom import knowledge as module
from orbit.release.sbom.expressions import canonical_expression
from orbit.release.sbom.knowledge import UNKNOWN, knowledge


@pytest.mark.parametrize(
    ("expression", "group"),
    [
        ("MIT", "permissive"),
        ("MPL-2.0 AND MIT", "weak-copyleft"),
        ("LGPL-2.1-or-later", "weak-copyleft"),
        ("GPL-3.0-or-later", "copyleft"),
        ("GPL-3.0-or-later OR MIT", "permissive"),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", "exception"),
        ("GPL-3.0-or-later WITH u-boot-exception-2.0", "copyleft"),
        ("LicenseRef-NVIDIA-Proprietary AND MIT", "proprietary"),
        ("LicenseRef-other", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_groups(expression: str, group: str) -> None:
    assert knowledge().group(expression) == group


def test_denied_is_what_cannot_be_used_otherwise() -> None:
    assert knowledge().is_denied("AGPL-3.0-only")
    assert knowledge().is_denied("MIT AND AGPL-3.0-only")
    assert not knowledge().is_denied("MIT OR AGPL-3.0-only")
    assert not knowledge().is_denied("")


def test_every_id_of_a_group_is_one_of_spdx() -> None:
    found = [item for group in knowledge().groups for item in group.ids] + list(knowledge().denied)
    assert len(found) > 60
    for item in found:
        if not item.endswith("*"):
            assert canonical_expression(item) == item


def test_a_wrong_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    good = module.data_file("env", module.FILE).read_text()
    monkeypatch.setattr(module, "data_file", lambda *_parts: tmp_path / "licenses.toml")
    for old, new, what in (
        ("schema = 1", "schema = 9", "schema 9"),
        ('"mit license" = ["MIT"]', '"mit license" = ["MIT-Nonsense"]', "no SPDX expression"),
        ("denied = [", "refused = [", "refused"),
    ):
        assert old in good
        (tmp_path / "licenses.toml").write_text(good.replace(old, new))
        knowledge.cache_clear()
        with pytest.raises(module.InputError, match=what):
            knowledge()
    knowledge.cache_clear()
