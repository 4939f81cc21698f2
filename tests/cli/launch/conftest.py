"""Fixtures of the commands' tests."""

from tests.cli.launch.jobs import memory, words

__all__ = ["memory", "words"]
