"""``orbit launch site show``, ``check`` and ``probe``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.paths import data_file
from orbit.launch.site.model import load_site, site_names


@pytest.fixture(autouse=True)
def outside_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_JOBID", "KUBERNETES_SERVICE_HOST", "_CONDOR_SCRATCH_DIR", "_CONDOR_SLOT"):
        monkeypatch.delenv(name, raising=False)


def test_show_lists_the_shipped_sites_and_prints_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "site", "show"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == site_names()
    assert main(["launch", "site", "show", "slurm-pyxis"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["slurm"]["partition"] == "gpu"
    assert main(["launch", "site", "show", "slurm-pyxis", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"]["gpus"] == 8
    assert main(["launch", "site", "show", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(site_names())
    assert main(["launch", "site", "show", "--schema"]) == 0
    assert "scheduler" in json.dumps(json.loads(capsys.readouterr().out))


def test_check_tells_every_contradiction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "site", "check", "kubernetes"]) == 0
    text = data_file("env", "sites", "slurm-pyxis.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace('runtime = "pyxis"', 'runtime = "docker"').replace('gpu = "H100"', ""))
    capsys.readouterr()
    assert main(["launch", "site", "check", str(path)]) == 1
    out = capsys.readouterr().out
    assert out.count("fix: ") == 2
    assert main(["launch", "site", "check", str(path), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2
    path.write_text(text.replace("partition", "partitoin"))
    assert main(["launch", "site", "check", str(path)]) == 2
    assert "did you mean 'partition'" in capsys.readouterr().err
    assert main(["launch", "site", "check", "nowhere"]) == 2


def test_probe_writes_a_file_that_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "here.toml"
    words = ["launch", "site", "probe", "--no-devices", "--scheduler", "slurm", "--name", "mine"]
    assert main([*words, "--out", str(path)]) == 0
    out, err = capsys.readouterr()
    assert (out, "must be settled by hand" in err) == ("", True)
    assert (load_site(str(path)).name, load_site(str(path)).scheduler) == ("mine", "slurm")
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["notes"]["scheduler"] == "given with --scheduler"
    assert "nodes.most" in said["open"]


def test_probe_asks_when_two_schedulers_claim_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("_CONDOR_SCRATCH_DIR", "/x")
    assert main(["launch", "site", "probe", "--no-devices"]) == 2
    assert "--scheduler slurm or htcondor" in capsys.readouterr().err
    assert main(["launch", "site", "probe", "--no-devices", "--name", "My Site"]) == 2
