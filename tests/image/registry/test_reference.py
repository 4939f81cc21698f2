"""References: what is read, what is refused and how it is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.image.registry.reference import Reference, is_loopback, parse_reference

DIGEST = "sha256:" + "a1" * 32


@pytest.mark.parametrize(
    ("text", "host", "repository", "tag", "digest"),
    [
        ("registry.example.org/team/orbit:1", "registry.example.org", "team/orbit", "1", ""),
        ("localhost/orbit", "localhost", "orbit", "latest", ""),
        ("localhost:5000/a/b/c:v1.2_x-y", "localhost:5000", "a/b/c", "v1.2_x-y", ""),
        (f"Host.Org/a@{DIGEST}", "host.org", "a", "", DIGEST),
        (f"host.org/a:t@{DIGEST}", "host.org", "a", "t", DIGEST),
        ("[::1]:5000/a__b/c--d:e", "[::1]:5000", "a__b/c--d", "e", ""),
        ("docker.io/debian:12", "docker.io", "library/debian", "12", ""),
        ("docker://docker.io/some/image", "docker.io", "some/image", "latest", ""),
    ],
)
def test_references_are_read(text: str, host: str, repository: str, tag: str, digest: str) -> None:
    found = parse_reference(text)
    assert found == Reference(host=host, repository=repository, tag=tag, digest=digest)
    assert parse_reference(str(found)) == found
    assert found.wanted == (digest or tag)


def test_docker_hub_answers_at_another_host() -> None:
    assert parse_reference("docker.io/a/b").api == "registry-1.docker.io"
    assert parse_reference("host.org/a/b").api == "host.org"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not begin with the host"),
        ("orbit:1", "does not begin with the host"),
        ("team/orbit:1", "does not begin with the host"),
        ("https://host.org/a", "does not begin with the host"),
        ("host.org", "does not begin with the host"),
        ("host.org/", "cannot be part"),
        ("host.org/Team/orbit", "'Team' cannot be part"),
        ("host.org/a//b", "'' cannot be part"),
        ("host.org/a/../b", "'..' cannot be part"),
        ("host.org/a_", "cannot be part"),
        ("host.org/a:", "'' is no tag"),
        ("host.org/a:-x", "'-x' is no tag"),
        ("host.org/a:" + "t" * 129, "is no tag"),
        ("host.org/a:b:c", "is no tag"),
        ("host.org/a@", "is not sha256"),
        ("host.org/a@sha256:12", "is not sha256"),
        ("host.org/a@sha512:" + "0" * 128, "is not sha256"),
        ("host.org/" + "a/" * 130 + "b", "longer than 255"),
        ("host.org/a\n", "cannot be part"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_reference(text)


@given(st.text(max_size=80))
def test_any_text_is_a_reference_or_bad_input(text: str) -> None:
    try:
        found = parse_reference(text)
    except InputError:
        return
    assert parse_reference(str(found)) == found


@pytest.mark.parametrize(
    ("host", "here"),
    [("localhost", True), ("localhost:5000", True), ("127.0.0.1:80", True), ("127.3.2.1", True), ("[::1]:5000", True),
     ("a.localhost", True), ("10.0.0.1:5000", False), ("host.org", False), ("localhost.org", False), ("[::2]", False)],
)  # fmt: skip
def test_only_this_machine_is_loopback(host: str, here: bool) -> None:
    assert is_loopback(host) is here
