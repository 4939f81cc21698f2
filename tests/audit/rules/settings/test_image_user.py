"""image-user: everything the configuration names, there and open; then each thing amiss, beside something like it."""

from __future__ import annotations

import pytest

from orbit.audit.rules import RULES
from orbit.core.findings import Finding, Severity
from tests.audit.rules.settings.rootfs import PREFIX, Rootfs, judge_image
from tests.audit.support import make_policy
from tests.writers.elf import write_elf

RULE = RULES["image-user"]

ROOT_HOME = "/root"
ENTRY = f"{PREFIX}/bin/start-entrypoint"


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, [finding.message for finding in findings]
    return findings[0]


@pytest.mark.parametrize("user", ["", "root", "0", "0:0", "ann", "1000:1000", "ann:ann"])
def test_a_sound_image_is_clean(rootfs: Rootfs, user: str) -> None:
    assert judge_image(RULE, rootfs, user=user) == []


@pytest.mark.parametrize(("user", "word"), [("bob", "bob"), ("ann:staff", "group staff")])
def test_a_name_that_nobody_has(rootfs: Rootfs, user: str, word: str) -> None:
    finding = only(judge_image(RULE, rootfs, user=user))
    assert (finding.subject, word in finding.message, finding.fatal) == ("USER", True, True)


def test_a_number_without_a_name(rootfs: Rootfs) -> None:
    finding = only(judge_image(RULE, rootfs, user="4242"))
    assert "getpass" in finding.message
    assert not finding.fatal
    assert judge_image(RULE, rootfs, {"USER": "runner"}, user="4242") == []


def test_a_home_that_is_not_there_or_closed(rootfs: Rootfs) -> None:
    rootfs.write(ENTRY, b'#!/bin/sh\nexec "$@"\n', 0o755)
    assert "does not exist" in only(judge_image(RULE, rootfs, {"HOME": "/home/bob"})).message
    assert "not writable by uid 65534" in only(judge_image(RULE, rootfs, {"HOME": "/root"})).message
    rootfs.folder("home/ann", 0o700)
    assert "not writable by uid 1000" in only(judge_image(RULE, rootfs, user="ann")).message
    assert judge_image(RULE, rootfs, user="") == []
    assert judge_image(RULE, rootfs, {"HOME": "/tmp"}) == []


def test_an_entry_point_that_sets_home(rootfs: Rootfs) -> None:
    assert judge_image(RULE, rootfs, {"HOME": "/home/bob"}) == []


def test_what_is_started_is_missing(rootfs: Rootfs) -> None:
    finding = only(judge_image(RULE, rootfs, entrypoint=("/entry.sh",)))
    assert "/entry.sh is not in the image" in finding.message
    assert only(judge_image(RULE, rootfs, entrypoint=(), command=("serve",))).subject == "CMD"
    assert judge_image(RULE, rootfs, entrypoint=(), command=("sh",)) == []
    assert only(judge_image(RULE, rootfs, entrypoint=(), command=())).severity is Severity.NOTE


def test_what_is_started_is_relative_to_the_working_folder(rootfs: Rootfs) -> None:
    assert judge_image(RULE, rootfs, entrypoint=("bin/start-entrypoint",), working_dir="/opt/orbit") == []
    assert len(judge_image(RULE, rootfs, entrypoint=("bin/start-entrypoint",), working_dir="/opt")) == 1


@pytest.mark.parametrize("mode", [0o644, 0o700])
def test_what_is_started_may_not_be_executed(rootfs: Rootfs, mode: int) -> None:
    (rootfs.root / ENTRY).chmod(mode)
    finding = only(judge_image(RULE, rootfs))
    assert f"mode {mode:04o}" in finding.message


def test_root_may_execute_what_its_owner_may(rootfs: Rootfs) -> None:
    (rootfs.root / ENTRY).chmod(0o700)
    assert judge_image(RULE, rootfs, policy=make_policy(uid=0)) == []
    (rootfs.root / ENTRY).chmod(0o600)
    assert len(judge_image(RULE, rootfs, policy=make_policy(uid=0))) == 1


def test_what_is_started_lies_in_a_closed_home(rootfs: Rootfs) -> None:
    rootfs.write("root/bin/serve", b"#!/bin/sh\n", 0o755)
    finding = only(judge_image(RULE, rootfs, entrypoint=(f"{ROOT_HOME}/bin/serve",)))
    assert "may not enter" in finding.message


@pytest.mark.parametrize(
    ("script", "word"),
    [
        (b"#!/bin/bash\n", "/bin/bash, is not in the image"),
        (b"#!/usr/bin/env bash\n", "bash, is not in the image"),
        (b"#!/bin/sh\r\n", "carriage return"),
        (b"export A=1\n", "exec format error"),
    ],
)
def test_scripts_that_do_not_start(rootfs: Rootfs, script: bytes, word: str) -> None:
    rootfs.write(ENTRY, script, 0o755)
    assert word in only(judge_image(RULE, rootfs)).message


@pytest.mark.parametrize("script", [b"#!/bin/sh -eu\n", b"#!/usr/bin/env -S sh -e\n", b"#! /bin/sh\n", b"#!/bin/sh"])
def test_scripts_that_start(rootfs: Rootfs, script: bytes) -> None:
    rootfs.write(ENTRY, script, 0o755)
    assert judge_image(RULE, rootfs) == []


def test_a_program_for_another_machine(rootfs: Rootfs) -> None:
    rootfs.write("usr/bin/serve", write_elf(machine=183), 0o755)
    assert "exec format error" in only(judge_image(RULE, rootfs, entrypoint=("serve",))).message
    assert judge_image(RULE, rootfs, entrypoint=("/bin/sh",)) == []


def test_working_folders(rootfs: Rootfs) -> None:
    finding = only(judge_image(RULE, rootfs, working_dir="/app"))
    assert (finding.subject, finding.fatal) == ("WORKDIR", False)
    assert only(judge_image(RULE, rootfs, working_dir="/root")).fatal
    assert "no folder" in only(judge_image(RULE, rootfs, working_dir="/etc/passwd")).message
    assert judge_image(RULE, rootfs, working_dir="/home/ann") == []


def test_temporary_folders(rootfs: Rootfs) -> None:
    rootfs.folder("tmp", 0o755)
    finding = only(judge_image(RULE, rootfs))
    assert (finding.subject, finding.fatal) == ("/tmp", True)
    rootfs.folder("tmp", 0o777)
    assert only(judge_image(RULE, rootfs)).severity is Severity.WARNING
    (rootfs.root / "tmp").rmdir()
    assert "not in the image" in only(judge_image(RULE, rootfs)).message
    (rootfs.root / "tmp").symlink_to("var/tmp")
    assert judge_image(RULE, rootfs) == []


def test_closed_and_relative_folders_in_path(rootfs: Rootfs) -> None:
    rootfs.folder("root/.local/bin")
    path = rootfs.variables["PATH"]
    finding = only(judge_image(RULE, rootfs, {"PATH": f"{ROOT_HOME}/.local/bin:{path}"}))
    assert finding.evidence["folders"] == f"{ROOT_HOME}/.local/bin"
    assert "current folder" in only(judge_image(RULE, rootfs, {"PATH": f"{path}:"})).message
    assert judge_image(RULE, rootfs, {"PATH": f"/usr/local/nvidia/bin:{path}"}) == []


def test_preload_for_every_program(rootfs: Rootfs) -> None:
    rootfs.write("etc/ld.so.preload", b"# nothing\n\n")
    assert judge_image(RULE, rootfs) == []
    rootfs.write("etc/ld.so.preload", b"/usr/lib/libhook.so\n")
    assert only(judge_image(RULE, rootfs)).evidence["libraries"] == "/usr/lib/libhook.so"


def test_programs_that_change_the_user(rootfs: Rootfs) -> None:
    rootfs.write("bin/su", write_elf(), 0o4755)
    assert judge_image(RULE, rootfs) == []
    rootfs.write(f"{PREFIX}/bin/helper", write_elf(), 0o4755)
    assert only(judge_image(RULE, rootfs)).evidence["paths"] == f"{PREFIX}/bin/helper"
