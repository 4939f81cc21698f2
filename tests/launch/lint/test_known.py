"""Image references, and what is known of an image."""

from __future__ import annotations

import pytest

from orbit.launch.lint import known as module
from orbit.launch.lint.known import Known, image_uid, is_file, known_image, reference
from tests.launch.lint.sound import DIGEST


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ray", ("ray", "", "")),
        ("registry:5000/a/b", ("registry:5000/a/b", "", "")),
        ("registry:5000/a/b:1", ("registry:5000/a/b", "1", "")),
        (f"a/b:1@{DIGEST}", ("a/b", "1", DIGEST)),
        (f"docker://a/b@{DIGEST}", ("a/b", "", DIGEST)),
        (f"nvcr.io#a/b:{DIGEST}", ("nvcr.io#a/b", "", DIGEST)),
    ],
)
def test_reference(text: str, parts: tuple[str, str, str]) -> None:
    found = reference(text)
    assert (found.repository, found.tag, found.digest) == parts


def test_what_a_tag_says() -> None:
    assert reference("rayproject/ray:2.46.0-py311-gpu").ray == "2.46.0"
    assert reference("rayproject/ray:2.46.0-py311-gpu").python == "311"
    assert reference("cr.example.org/rayproject/ray-ml:2.9.0").ray == "2.9.0"
    assert reference("mine/ray:2.46.0").ray == ""
    assert reference("rayproject/ray:nightly").ray == ""


def test_files_are_no_references() -> None:
    assert is_file("/images/a.sif")
    assert is_file("a.sqsh")
    assert not is_file("docker://a/b:1")
    assert not is_file("a/b")


def test_users_of_images() -> None:
    assert image_uid(Known(), "rayproject/ray:2.46.0") == 1000
    assert image_uid(Known(), "a/b") is None
    assert image_uid(Known(uid=65534), "a/b") == 65534
    assert image_uid(Known(uid=65534, image=DIGEST), "a/b") is None
    assert image_uid(Known(uid=65534, image=DIGEST), f"a/b@{DIGEST}") == 65534


def test_the_version_of_ray_is_that_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_image("2.50.0") == Known(ray="2.50.0", sure=True)
    assert known_image().ray.count(".") == 2
    assert not known_image().sure
    assert known_image(image=DIGEST).sure

    def absent() -> None:
        raise module.InputError("no checkout")

    monkeypatch.setattr(module, "checkout_root", absent)
    monkeypatch.setattr(module.importlib.metadata, "version", lambda name: f"{name} 1.2.3")
    assert known_image().ray == "ray 1.2.3"
