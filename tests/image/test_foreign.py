"""Other people's tools read our layouts: skopeo takes the documents apart, umoci unpacks the layers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from orbit.core.store import Store
from orbit.image.oci import read_layout
from tests.image.conftest import BuildSmall
from tests.image.world import environment_files

pytestmark = pytest.mark.integration


def need(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


def test_skopeo_reads_and_copies_the_image(store: Store, build_small: BuildSmall, tmp_path: Path) -> None:
    skopeo = need("skopeo")
    result = build_small(store)
    done = subprocess.run([skopeo, "inspect", f"oci:{result.layout}"], capture_output=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["Digest"] == result.digest
    assert facts["Layers"] == [layer.digest for layer in result.layers]
    assert facts["Labels"]["io.orbit.profile"] == "small"
    # skopeo compares every blob with its digest while it copies
    copy = tmp_path / "copy"
    subprocess.run(
        [skopeo, "--insecure-policy", "copy", "--quiet", f"oci:{result.layout}", f"oci:{copy}"],
        check=True, capture_output=True,
    )  # fmt: skip
    assert read_layout(copy).digest == result.digest


def test_umoci_unpacks_what_went_in(store: Store, build_small: BuildSmall, tmp_path: Path) -> None:
    umoci = need("umoci")
    # umoci 0.4 knows no zstd
    result = build_small(store, codec="gzip")
    bundle = tmp_path / "bundle"
    subprocess.run(
        [umoci, "unpack", "--rootless", "--image", f"{result.layout}:orbit/small", bundle],
        check=True, capture_output=True,
    )  # fmt: skip
    prefix = bundle / "rootfs" / "opt" / "orbit"
    for name, data in environment_files().items():
        assert (prefix / name).read_bytes() == data
    config = json.loads((bundle / "config.json").read_text())
    assert config["process"]["args"] == ["/opt/orbit/bin/orbit-entrypoint", "orbit", "--help"]
