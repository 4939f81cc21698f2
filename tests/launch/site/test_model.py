"""Reading a site file."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.paths import data_file
from orbit.errors import InputError
from orbit.launch.site.model import SITES, load_site, read_site, site_names, site_path

TEXT = data_file(SITES, "slurm-pyxis.toml").read_text()


def write(folder: Path, text: str) -> str:
    path = folder / "site.toml"
    path.write_text(text)
    return str(path)


def test_shipped_sites_load_and_are_named_as_their_files() -> None:
    assert len(site_names()) >= 9
    for name in site_names():
        assert load_site(name).name == name
        assert site_path(name).stem == name


def test_a_small_file_is_enough(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'schema = 1\nname = "here"\nscheduler = "docker"\n[nodes]\ngpus = 0\ncpus = 8\nmemory_gib = 64\n'
        '[image]\nruntime = "docker"\n',
    )
    found = load_site(path)
    assert (found.name, found.nodes.most, found.storage.mounts) == ("here", 1, ())


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("gpus = 8", "gpuz = 8", "did you mean 'gpu' or 'gpus'?"),
        ("scratch_gib", "scratch_gb", "did you mean 'scratch_gib'"),
        ('scheduler = "slurm"', 'scheduler = "slrum"', "did you mean 'slurm'?"),
        ("[slurm]", "[slrum]", "did you mean 'slurm'?"),
        ("gpus = 8", 'gpus = "8"', "nodes.gpus"),
        ("schema = 1", "schema = 2", "schema = 2"),
        ("gpus = 8", "gpus = ", "not valid TOML"),
    ],
)
def test_a_wrong_key_is_told_with_file_and_the_right_one(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in TEXT
    path = write(tmp_path, TEXT.replace(before, after, 1))
    with pytest.raises(InputError) as caught:
        load_site(path)
    assert path in str(caught.value)
    assert said in str(caught.value)


def test_a_contradiction_is_refused_and_can_still_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT.replace('runtime = "pyxis"', 'runtime = "docker"').replace('gpu = "H100"', ""))
    with pytest.raises(InputError) as caught:
        load_site(path)
    assert "1 more: orbit launch site check" in caught.value.what
    assert read_site(path).image.runtime == "docker"


@pytest.mark.parametrize("name", ["nowhere", "./nowhere.toml"])
def test_a_site_that_is_not_there_is_told_with_those_that_are(name: str) -> None:
    with pytest.raises(InputError, match=r"no such site") as caught:
        load_site(name)
    assert "slurm-pyxis" in caught.value.fix
