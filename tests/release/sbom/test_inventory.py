"""An image against what it says of itself: nothing in it is left out, nothing that is missing goes unnoticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import InputError
from orbit.release.sbom.inventory import take_inventory
from tests.release.sbom.material import HOME, SITE, Files, make, one, record, rules, taken


def test_everything_in_the_image_is_a_component(tmp_path: Path) -> None:
    found = taken(make(tmp_path / "image"))
    assert found.counts == {
        "python": 3,
        "vendored-python": 1,
        "library": 2,
        "static": 0,
        "kernel": 1,
        "orbit": 1,
        "interpreter": 1,
        "debian": 2,
        "base": 1,
    }
    assert rules(found) == []
    assert found.image == "orbit/small"
    assert found.created == "1980-01-01T00:00:00Z"
    assert found.checked["record-distributions"] == 3
    assert found.checked["dist-info-folders"] == 4
    assert found.checked["dpkg-packages"] == 2
    refs = [item.ref for item in found.components]
    assert len(refs) == len(set(refs))
    for item in found.components:
        assert {item.inside} - {""} <= set(refs)
        assert set(item.depends) <= set(refs)


def test_a_distribution_has_its_wheel_and_what_it_needs(tmp_path: Path) -> None:
    found = taken(make(tmp_path / "image"))
    numeric = one(found, "numeric")
    assert numeric.purl == "pkg:pypi/numeric@2.0"
    assert numeric.sha256 == "1" * 64
    assert numeric.notes == {"origin": "index", "wheel": "numeric.whl"}
    # an extra that somebody asks for counts, another platform does not
    assert numeric.depends == (f"/{SITE}/own_kernels-1.5.dist-info",)
    assert one(found, "own-kernels", "python").depends == (f"/{SITE}/odd_one-0.1.dist-info",)
    assert one(found, "orbit").depends == (numeric.ref,)
    assert one(found, "inner").inside == numeric.ref


def test_libraries_and_kernels_lie_inside_their_distribution(tmp_path: Path) -> None:
    found = taken(make(tmp_path / "image"))
    graft = one(found, "libgraft.so.62")
    assert (graft.version, graft.notes["interface"], graft.notes["grafted"]) == ("", "62.4.0", "true")
    assert graft.inside == one(found, "numeric").ref
    kernel = one(found, "own-kernels", "kernel")
    assert kernel.inside == one(found, "own-kernels", "python").ref
    assert kernel.notes["recipe"] == "own-kernels"
    assert len(kernel.notes["recipe-sha256"]) == 64
    assert kernel.notes["requested"] == "compute_90a:sm_90a"
    assert kernel.paths == (f"/{SITE}/own_kernels/libown.so",)


def remove(path: str):
    def change(files: Files) -> None:
        del files[path]

    return change


def remove_dist(files: Files) -> None:
    for path in [path for path in files if "/odd_one-0.1.dist-info/" in path]:
        del files[path]


def hollow(files: Files) -> None:
    del files[f"{SITE}/odd.py"]


def rename(files: Files) -> None:
    files[f"{HOME}/share/orbit/environment.json"] = json.dumps(record(distributions=[])).encode()


def newer(files: Files) -> None:
    path = f"{SITE}/odd_one-0.1.dist-info/METADATA"
    files[path] = files[path].replace(b"Version: 0.1", b"Version: 0.2")


def twice(files: Files) -> None:
    for path in [path for path in files if "/odd_one-0.1.dist-info/" in path]:
        files[path.replace("odd_one-0.1", "odd_one-0.1.0")] = files[path]


def unlisted(files: Files) -> None:
    del files[f"{SITE}/odd_one-0.1.dist-info/RECORD"]


def half_installed(files: Files) -> None:
    files["var/lib/dpkg/status"] = files["var/lib/dpkg/status"].replace(
        b"install ok installed", b"install ok unpacked", 1
    )


def broken_record(files: Files) -> None:
    files[f"{HOME}/share/orbit/environment.json"] = b'{"schema": 1'


def other_schema(files: Files) -> None:
    files[f"{HOME}/share/orbit/environment.json"] = json.dumps(record(schema=7)).encode()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (remove_dist, [("sbom-dist-missing", "odd-one")]),
        (hollow, [("sbom-dist-files", "odd-one")]),
        (
            rename,
            [("sbom-dist-unrecorded", name) for name in ("numeric", "odd-one", "own-kernels")],
        ),
        (newer, [("sbom-dist-version", "odd-one")]),
        (twice, [("sbom-dist-twice", "odd-one")]),
        (unlisted, [("sbom-dist-unreadable", "odd-one")]),
        (
            remove(f"{SITE}/odd_one-0.1.dist-info/METADATA"),
            [("sbom-dist-files", "odd-one"), ("sbom-dist-unreadable", "odd-one")],
        ),
        (remove("usr/lib/libbar.so.2"), [("sbom-package-files", "libbar2")]),
        (remove("usr/lib/libfoo.so.1"), [("sbom-package-files", "libfoo1")]),
        (remove("var/lib/dpkg/info/libbar2.list"), [("sbom-package-files", "libbar2")]),
        (half_installed, [("sbom-package-state", "libfoo1")]),
        (remove("var/lib/dpkg/status"), [("sbom-no-dpkg", "/var/lib/dpkg/status")]),
        (remove(f"{HOME}/share/orbit/environment.json"), [("sbom-no-record", "share/orbit/environment.json")]),
        (broken_record, [("sbom-no-record", f"/{HOME}/share/orbit/environment.json")]),
        (other_schema, [("sbom-no-record", f"/{HOME}/share/orbit/environment.json")]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_does_not_add_up_is_a_finding(tmp_path: Path, change: object, expected: list[tuple[str, str]]) -> None:
    found = taken(make(tmp_path / "image", change))
    assert rules(found) == expected


def test_files_that_the_base_leaves_out_are_no_error(tmp_path: Path) -> None:
    def change(files: Files) -> None:
        files["var/lib/dpkg/info/libbar2.list"] = b"/usr/lib/libxsan.so.2\n/usr/share/doc/libbar2\n"

    found = taken(make(tmp_path / "image", change))
    (note,) = found.findings
    assert (note.rule, note.subject, note.fatal) == ("sbom-package-files", "libbar2", False)
    assert one(found, "libbar2").kind == "debian"


def test_an_image_without_anything_is_full_of_findings(tmp_path: Path) -> None:
    def change(files: Files) -> None:
        files.clear()
        files["etc/motd"] = b"hello\n"

    found = taken(make(tmp_path / "image", change))
    assert [rule for rule, _ in rules(found)] == ["sbom-no-dpkg", "sbom-no-python", "sbom-no-record"]
    assert found.components == ()


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither index"):
        take_inventory(str(tmp_path), cache=None, progress=Silent())
    with pytest.raises(InputError, match="no such file"):
        take_inventory(str(tmp_path / "nothing"), cache=None, progress=Silent())


HOSTILE = {
    "huge": b"Name: odd-one\nVersion: 0.1\nLicense: " + b"x" * 3_000_000 + b"\n",
    "too long to be read": b"Name: odd-one\nVersion: 0.1\n" + b"Summary: y\n" * 500_000,
    "not UTF-8": b"Name: odd-one\nVersion: 0.1\nSummary: \xff\xfe\nLicense: \xe9\n",
    "control characters": b"Name: odd-one\nVersion: 0.1\x1b[31m\x00\nSummary: \x07\x1b]0;x\x9c\nLicense: MIT\x00\n",
    "another name": b"Name: ../../etc/passwd\nVersion: 0.1\n",
    "surrogates": "Name: odd-one\nVersion: 0.1\nSummary: \ud800\n".encode("utf-8", "surrogatepass"),
    "brackets": b"Name: odd-one\nVersion: 0.1\nLicense-Expression: " + b"(" * 100_000 + b"\n",
    "requirements": b"Name: odd-one\nVersion: 0.1\nRequires-Dist: " + b"(" * 100_000 + b"\nRequires-Dist: a @ b; ((\n",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_metadata_is_no_more_than_a_finding(tmp_path: Path, name: str) -> None:
    from tests.release.sbom.documents import check_documents

    def change(files: Files) -> None:
        files[f"{SITE}/odd_one-0.1.dist-info/METADATA"] = HOSTILE[name]

    found = taken(make(tmp_path / "image", change))
    (odd,) = [item for item in found.components if item.ref == f"/{SITE}/odd_one-0.1.dist-info"]
    assert all(char.isprintable() for char in odd.name + odd.version + odd.summary)
    assert odd.name == "odd-one"
    assert len(odd.summary) <= 300
    check_documents(found)
