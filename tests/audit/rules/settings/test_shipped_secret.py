"""shipped-secret: credentials by name, by form and by file; and what only has such a name."""

from __future__ import annotations

import msgspec
import pytest

from orbit.audit.rules import RULES
from tests.audit.rules.settings.rootfs import Rootfs, judge_image

RULE = RULES["shipped-secret"]

HUB = "hf_" + "aB3" * 12
CLOUD = "AKIA" + "Z" * 16


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", HUB),
        ("SETTING", f"--token {HUB}"),
        ("WANDB_API_KEY", "0123456789abcdef" * 2),
        ("AWS_ACCESS_KEY_ID", CLOUD),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMIK7MDENGbPxRfiCY"),
        ("DB_PASSWORD", "correct horse battery"),
        ("PIP_INDEX_URL", "https://ann:s3cretword@mirror.local/simple"),
        ("https_proxy", "http://ann:s3cretword@proxy.local:3128"),
    ],
)
def test_secrets_in_variables(rootfs: Rootfs, name: str, value: str) -> None:
    (finding,) = judge_image(RULE, rootfs, {name: value})
    assert (finding.subject, finding.fatal) == (name, True)
    text = msgspec.json.encode(finding).decode()
    assert value not in text
    assert "s3cretword" not in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GPG_KEY", "7169605F62C751356D054A26A821E680E5FA6305"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "4096000000"),
        ("HF_TOKEN", ""),
        ("HF_TOKEN", "changeme"),
        ("HF_TOKEN_PATH", "/run/secrets/hf"),
        ("API_TOKEN", "/run/secrets/api-token"),
        ("DB_PASSWORD", "${DB_PASSWORD}"),
        ("SSH_AUTH_SOCK", "/run/ssh-agent.sock"),
        ("KEYBOARD", "a-long-value-of-a-setting"),
        ("PIP_INDEX_URL", "https://mirror.local/simple"),
        ("MONKEY", "0123456789abcdef0123456789abcdef"),
    ],
)
def test_what_is_no_secret(rootfs: Rootfs, name: str, value: str) -> None:
    assert judge_image(RULE, rootfs, {name: value}) == []


def test_secrets_in_labels(rootfs: Rootfs) -> None:
    (finding,) = judge_image(RULE, rootfs, labels={"org.build.token": HUB, "org.build.revision": "0" * 40})
    assert (finding.subject, "label" in finding.message) == ("org.build.token", True)


@pytest.mark.parametrize("path", ["root/.netrc", "home/ann/.cache/huggingface/token", "root/.ssh/id_ed25519"])
def test_files_of_credentials(rootfs: Rootfs, path: str) -> None:
    rootfs.write(path, b"machine api login x password y\n", 0o600)
    (finding,) = judge_image(RULE, rootfs)
    assert finding.subject == path


def test_files_that_only_have_such_a_name(rootfs: Rootfs) -> None:
    rootfs.write("root/.netrc", b"")
    rootfs.write("usr/share/huggingface/token", b"about tokens")
    rootfs.write("root/.ssh/id_ed25519.pub", b"ssh-ed25519 AAAA")
    rootfs.env.add("samples", {"samples/.netrc": b"machine example"})
    assert judge_image(RULE, rootfs) == []
