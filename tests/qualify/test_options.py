"""Options: read, checked, and handed on to the process of an environment."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.qualify.options import IMAGE, add_options, image_of, words


def parse(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(argv)


def test_what_is_handed_on_says_the_same() -> None:
    given = parse("--path", "sdpa", "--set", "tf32=true", "--set", "threads=2", "--device", "cpu", "--out", "r.json")
    again = parse(*words(given))
    assert vars(again) == vars(given) | {"out": Path("r.json").absolute()}


def test_an_image_is_named_by_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = "sha256:" + "ab" * 32
    monkeypatch.delenv(IMAGE, raising=False)
    assert image_of(parse("--image", digest)) == digest
    assert image_of(parse()) == ""
    monkeypatch.setenv(IMAGE, digest)
    assert image_of(parse()) == digest
    assert digest in words(parse())
    for bad in ("ab" * 32, "sha256:ab", "sha256:" + "AB" * 32, "orbit:latest"):
        with pytest.raises(InputError, match="not a digest"):
            image_of(parse("--image", bad))
