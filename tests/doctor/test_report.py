"""The report for a colleague: both forms, redacted as a whole, readable by its owner alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.doctor.facts import Facts, Prefix, Process, RayAddress
from orbit.doctor.redact import Redactor
from orbit.doctor.report import here, make_report, write_report
from orbit.doctor.run import diagnose

NAME = "annabel"
SECRETS = ("hunter22", "0123456789abcdefsecret", NAME, "gpu-node7", "10.9.8.7")
FACTS = Facts(
    variables={
        "RAY_AUTH_TOKEN": "0123456789abcdefsecret",
        "http_proxy": "http://annabel:hunter22@10.9.8.7:3128",
        "HOME": f"/home/{NAME}",
    },
    prefix=Prefix(path=f"/home/{NAME}/env", site=f"/home/{NAME}/env/lib/python3.12/site-packages",
                  num_dangling=2, dangling=("a", "b"), packages={"torch": "2.11.0", "nvidia-cublas": "13.4.1.1"}),
    processes=(Process(pid=7, parent=1, state="R", name="ray::Actor", age_s=60),),
    ray=(RayAddress(source="RAY_ADDRESS", address="10.9.8.7:6379", answer="refused"),),
)  # fmt: skip
REDACTOR = Redactor(user=NAME, hosts=("gpu-node7",))


@pytest.mark.parametrize("name", ["report.json", "report.txt"])
def test_no_secret_is_in_it_and_the_facts_are(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_report(path, diagnose(FACTS), FACTS, REDACTOR)
    text = path.read_text(encoding="utf-8")
    assert [secret for secret in SECRETS if secret in text] == []
    assert "dangling-links" in text or "shell of links" in text
    assert "torch" in text
    assert "13.4.1.1" in text
    assert "ip-1" in text
    assert path.stat().st_mode & 0o077 == 0


def test_json_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "report"
    write_report(path, diagnose(FACTS), FACTS, REDACTOR)
    report = json.loads(path.read_bytes())
    assert report["schema"] == "orbit.doctor-report/1"
    assert report["diagnosis"]["causes"][0]["symptom"] == "dangling-links"
    assert report["facts"]["variables"]["RAY_AUTH_TOKEN"] == "[redacted]"


def test_the_redactor_of_this_machine_knows_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "thathost.example.org")
    monkeypatch.setattr("getpass.getuser", lambda: "thatuser")
    assert here().text("thatuser on thathost, thathost.example.org") == "USER on HOST, HOST"


def test_a_user_without_a_name_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nobody)
    report = make_report(diagnose(Facts()), Facts(), here())
    assert report["facts"]["oom_kills"] == 0
