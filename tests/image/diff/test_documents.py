"""Configurations and manifests field by field."""

from __future__ import annotations

import json

from orbit.image.diff.documents import compare_configs, compare_manifests


def changes(left: object, right: object) -> dict[str, tuple[str, str]]:
    found = compare_configs(json.dumps(left).encode(), json.dumps(right).encode())
    return {change.name: (change.before, change.after) for change in found}


def test_variables_labels_and_the_rest_by_name() -> None:
    left = {
        "config": {"Env": ["A=1", "PATH=/bin"], "Labels": {"x": "1"}, "Entrypoint": ["sh", "-c"], "User": ""},
        "rootfs": {"diff_ids": ["a"]}, "history": [{"created_by": "x"}], "os": "linux",
    }  # fmt: skip
    right = {
        "config": {"Env": ["PATH=/usr/bin", "A=1"], "Labels": {"x": "1", "y": "2"}, "Entrypoint": ["sh"], "User": "7"},
        "rootfs": {"diff_ids": ["b"]}, "history": [{"created_by": "y"}], "os": "linux",
    }  # fmt: skip
    assert changes(left, right) == {
        "Env.PATH": ("/bin", "/usr/bin"),
        "Labels.y": ("", "2"),
        "Entrypoint": ('["sh","-c"]', '["sh"]'),
        "User": ("", "7"),
        "history.0.created_by": ("x", "y"),
    }


def test_null_and_empty_are_nothing() -> None:
    assert changes({"config": None, "a": None}, {"config": {"Env": None, "Cmd": []}, "a": ""}) == {}


def test_long_values_are_compared_whole_and_told_short() -> None:
    found = changes({"a": "x" * 5000 + "1"}, {"a": "x" * 5000 + "2"})
    assert len(found["a"][0]) == 2000


def test_manifests_without_descriptors_of_layers() -> None:
    left = {"annotations": {"a": "1"}, "layers": [1], "config": {"digest": "x", "size": 1}}
    right = {"annotations": {"a": "2"}, "layers": [2], "config": {"digest": "y", "size": 2}}
    found = compare_manifests(json.dumps(left).encode(), json.dumps(right).encode())
    assert [(change.name, change.before, change.after) for change in found] == [("annotations.a", "1", "2")]
    assert compare_manifests(json.dumps(left).encode(), b"{}") == ()
