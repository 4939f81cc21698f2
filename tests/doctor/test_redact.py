"""What may leave a machine: nothing that opens a door, nobody's name, no address."""

from __future__ import annotations

import pytest

from orbit.doctor.redact import REDACTED, Redactor

NAME = "annabel"
REDACTOR = Redactor(user=NAME, hosts=("gpu-node7.example.org", "gpu-node7"))


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("http://annabel:hunter22@proxy.example.org:3128", "hunter22"),
        ("https://oauth2:glpat-AbCdEfGhIjKlMnOpQrSt@git.example.org/x", "glpat-AbCd"),
        ("HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345", "AbCdEf"),
        ("Authorization: Bearer abcdefghijkl", "abcdefghijkl"),
        ("--api-key 'xyzzy123'  password: swordfish1", "swordfish1"),
        ('{"password": "swordfish1"}', "swordfish1"),
        ("ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789", "AbCdEfGh"),
        (f"/home/{NAME}/.cache/flashinfer", NAME),
        ("/scratch/bob123/run", "bob123"),
        ("connect to 10.12.13.14:6379 refused", "10.12.13.14"),
        ("fe80:0:0:0:1234:5678:9abc:def0 is up", "9abc"),
        ("eth0 fd00::2, fe80::1ff:fe23:4567:890a", "fd00::2"),
        ("link fe80::1ff:fe23:4567:890a", "890a"),
        ("ether 02:42:ac:11:00:02", "ac:11"),
        ("on gpu-node7.example.org and gpu-node7", "node7"),
    ],
)
def test_secrets_names_and_addresses_are_gone(text: str, gone: str) -> None:
    assert gone not in REDACTOR.text(text)


@pytest.mark.parametrize(
    "text",
    [
        "torch 2.11.0+cu130 in lib/python3.12/site-packages",
        "127.0.0.1:6379 and [::1]:6379",
        "NCCL version 2.30.4+cuda13.2",
        "sha256:3b1f",
        "/tmp/orbit-1000/cache/0123456789ab/H200",
        "580.65.06",
        "2026-12-01 02:00:00 c10::Error in at::native",
        "PCI 0000:3b:00.0",
    ],
)
def test_what_says_nothing_about_anybody_stays(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_one_address_has_one_name_everywhere() -> None:
    redactor = Redactor(user="", hosts=())
    assert redactor.text("10.0.0.4 10.0.0.5 10.0.0.4") == "ip-1 ip-2 ip-1"
    assert redactor.tree({"a": ["10.0.0.5", 7, None], "10.0.0.4": True}) == {"a": ["ip-2", 7, None], "ip-1": True}


def test_variables_go_by_name_and_by_form() -> None:
    values = {
        "RAY_AUTH_TOKEN": "0123456789abcdef0123",
        "WANDB_API_KEY": "0123456789012345678901234567890123456789",
        "http_proxy": "http://ann:pass1234@proxy:3128",
        "CUDA_HOME": "/opt/orbit/cuda",
        "ORBIT_OWNER_FILE": "/run/owner",
    }
    found = Redactor(user="ann", hosts=()).variables(values)
    assert found["RAY_AUTH_TOKEN"] == found["WANDB_API_KEY"] == REDACTED
    assert "pass1234" not in found["http_proxy"]
    assert (found["CUDA_HOME"], found["ORBIT_OWNER_FILE"]) == ("/opt/orbit/cuda", "/run/owner")


def test_short_and_common_names_are_no_names() -> None:
    assert Redactor(user="root", hosts=("a", "localhost")).text("a root of localhost") == "a root of localhost"
