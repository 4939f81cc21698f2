"""The inspection as text for people."""

from __future__ import annotations

from pathlib import Path

from orbit.core.store import Store
from orbit.image.inspect.text import render
from tests.image.conftest import BuildSmall
from tests.image.inspect.material import image
from tests.image.inspect.test_look import looked


def test_what_it_tells(tmp_path: Path) -> None:
    text = render(looked(image(tmp_path), verify=True).facts, limit=None)
    for words in (
        "device code", "sm_90a", "h100", "no use for h100 (sm_90a): 4.5 kB", "Python distributions", "gpu 1.0",
        "Debian packages", "libfoo 1.2-3", "owned by nobody", "CPython (/opt/orbit)", "largest files",
        "equal content in several places", "etc/motd of layer 0", "label       io.orbit.targets = h100=sm_90a",
        "every layer was read",
    ):  # fmt: skip
        assert words in text
    assert "\x1b" not in text
    assert "\\x1b[31m" in text


def test_limit_cuts_lists_and_says_so(tmp_path: Path) -> None:
    facts = looked(image(tmp_path)).facts
    short, whole = render(facts, limit=1), render(facts, limit=None)
    assert "... and" in short
    assert "... and" not in whole
    assert len(short.splitlines()) < len(whole.splitlines())


def test_brief_has_layers_and_configuration_alone(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    text = render(looked(result.layout, brief=True).facts)
    assert all(layer.name in text and layer.digest[7:19] in text for layer in result.layers)
    assert "largest files" not in text
    assert "every layer was read" not in text
