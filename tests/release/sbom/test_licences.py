"""What a distribution says of its licence: known without doubt, or unknown with the reason."""

from __future__ import annotations

import pytest

from orbit.release.sbom.knowledge import knowledge
from orbit.release.sbom.licences import licence_of
from orbit.release.sbom.model import Licence, LicenceText

APACHE = "License :: OSI Approved :: Apache Software License"
BSD, MIT = "License :: OSI Approved :: BSD License", "License :: OSI Approved :: MIT License"
KNOWN_TEXT = next(sha256 for sha256, spdx in knowledge().texts.items() if spdx == "Apache-2.0")


def ask(expression: str = "", field: str = "", *classifiers: str, text: str = "") -> Licence:
    headers = {
        "license-expression": [expression] if expression else [],
        "license": [field] if field else [],
        "classifier": list(classifiers),
    }
    texts = [LicenceText(path="/x", sha256=text, size=1)] if text else []
    return licence_of("x", "1", headers=headers, texts=texts, missing=(), known=knowledge())


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("MIT",), "MIT"),
        (("mit or apache-2.0",), "MIT OR Apache-2.0"),
        (("Apache-2.0", "", APACHE), "Apache-2.0"),
        (("MPL-2.0 AND (Apache-2.0 OR MIT)", "", APACHE, MIT), "MPL-2.0 AND (Apache-2.0 OR MIT)"),
        (("", "Apache 2.0", APACHE), "Apache-2.0"),
        (("", "Apache License\n   Version 2.0, January 2004\n\n" + "words " * 100), "Apache-2.0"),
        (("", "MIT License\n\nCopyright (c) 2022\n"), "MIT"),
        (("", "", MIT), "MIT"),
        (("", "UNKNOWN", MIT), "MIT"),
        (("", "BSD", "License :: OSI Approved"), ""),
        (
            ("LicenseRef-NVIDIA-Proprietary", "", "License :: Other/Proprietary License"),
            "LicenseRef-NVIDIA-Proprietary",
        ),
    ],
)
def test_what_one_place_states_and_none_contradicts_is_known(said: tuple[str, ...], expected: str) -> None:
    found = ask(*said)
    assert found.expression == expected
    assert bool(found.unknown) is not bool(expected)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ((), "nothing is said"),
        (("BSD",), "words of its own"),
        (("", "see the file"), "words of its own"),
        (("", "BSD", BSD), "not one licence"),
        (("", "", BSD), "not one licence"),
        (("", "", MIT, APACHE), "contradicted by Classifier"),
        (("", "Apache 2.0", BSD), "contradicted by Classifier"),
        (("MIT", "GPL-3.0-or-later"), "contradicted by License"),
        (("", "Apache 2.0", "License :: Other/Proprietary License"), "contradicted by Classifier"),
        (("", "", "License :: Other/Proprietary License"), "not one licence"),
    ],
)
def test_what_is_missing_or_disagrees_is_unknown(said: tuple[str, ...], reason: str) -> None:
    found = ask(*said)
    assert found.expression == ""
    assert reason in found.unknown


def test_a_text_known_by_its_bytes_decides_what_a_name_leaves_open() -> None:
    assert ask("", "Apache", APACHE).expression == ""
    assert ask("", "Apache", APACHE, text=KNOWN_TEXT).expression == "Apache-2.0"
    assert ask("", "", text=KNOWN_TEXT).expression == "Apache-2.0"
    assert ask("", "BSD", BSD, text=KNOWN_TEXT).expression == ""


def test_what_metadata_declares_is_kept_when_it_is_contradicted() -> None:
    found = ask("MIT", "GPL-3.0-or-later")
    assert (found.declared, found.expression) == ("MIT", "")
