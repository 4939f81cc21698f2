"""Tests of ``orbit image``: exit codes and sentences."""
