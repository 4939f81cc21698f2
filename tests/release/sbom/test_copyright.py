"""Debian's copyright files."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.release.sbom.copyright import read_copyright, to_expression
from orbit.release.sbom.knowledge import knowledge
from tests.release.sbom.material import Files, make, one, taken

HEAD = b"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GPL-2+", "GPL-2.0-or-later"),
        ("gpl-2+", "GPL-2.0-or-later"),
        ("GPL-2+ or Expat", "GPL-2.0-or-later OR MIT"),
        ("ISC and/or LGPL-2.1+", "ISC OR LGPL-2.1-or-later"),
        ("REGCOMP, and GPL-1+ or Artistic", "LicenseRef-Debian-REGCOMP AND (GPL-1.0-or-later OR Artistic-1.0-Perl)"),
        ("GPL-1+ or Artistic, and Expat", "(GPL-1.0-or-later OR Artistic-1.0-Perl) AND MIT"),
        ("GPL-2 with Linux-syscall-note exception", "GPL-2.0-only WITH Linux-syscall-note"),
        ("GPL-3+ with Bison exception", "LicenseRef-Debian-GPL-3-or-later-with-Bison-exception"),
        ("none of them, see below", ""),
        ("__AUTO__", ""),
    ],
)
def test_short_names(name: str, expected: str) -> None:
    assert to_expression(name, knowledge()) == expected


def test_every_files_paragraph_counts_and_licence_paragraphs_do_not() -> None:
    text = HEAD + b"Files: *\nLicense: Expat\n\nFiles: x\nLicense: ISC\n words\n\nLicense: GPL-2\n words\n"
    assert read_copyright(text) == (("Expat", "ISC"), "")
    assert (
        read_copyright(b"This package was debianized by somebody.\n")[1] == "its copyright file is not machine-readable"
    )
    assert read_copyright(HEAD + b"Files: *\nLicense: Expat\n\nFiles: x\n")[0] == ()
    assert read_copyright(HEAD)[0] == ()
    assert read_copyright(b"\xff\xfe\x00")[0] == ()


def test_a_package_has_the_licences_of_its_source(tmp_path: Path) -> None:
    found = one(taken(make(tmp_path / "image")), "libfoo1").licence
    assert found.expression == "(GPL-2.0-or-later OR MIT) AND LicenseRef-Debian-Odd-License"
    assert [text.path for text in found.texts] == ["/usr/share/doc/libfoo1/copyright"]


def test_without_its_file_it_is_unknown_and_the_file_is_named(tmp_path: Path) -> None:
    found = one(taken(make(tmp_path / "image")), "libbar2").licence
    assert (found.expression, found.unknown) == ("", "no copyright file")
    assert found.missing == ("/usr/share/doc/libbar2/copyright",)


def test_a_package_of_the_same_source_that_it_needs_speaks_for_it(tmp_path: Path) -> None:
    def change(files: Files) -> None:
        files["var/lib/dpkg/status"] += b"""
Package: libfoo-dev
Status: install ok installed
Architecture: amd64
Source: foo (1.0-2)
Version: 1:1.0-2+b1
Depends: libbar2, libfoo1 (= 1)
"""
        files["var/lib/dpkg/info/libfoo-dev.list"] = b"/usr/share/doc/libfoo-dev\n/usr/lib/libfoo.so.1\n"

    found = one(taken(make(tmp_path / "image", change)), "libfoo-dev").licence
    assert found.expression == "(GPL-2.0-or-later OR MIT) AND LicenseRef-Debian-Odd-License"
    assert found.missing == ("/usr/share/doc/libfoo-dev/copyright",)


def test_its_own_file_counts_before_that_of_another(tmp_path: Path) -> None:
    def change(files: Files) -> None:
        files["usr/share/doc/libbar2/copyright"] = b"words\n"

    found = one(taken(make(tmp_path / "image", change)), "libbar2").licence
    assert found.unknown == "its copyright file is not machine-readable"
    assert found.missing == ()
