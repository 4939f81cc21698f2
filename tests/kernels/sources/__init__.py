"""Tests of orbit.kernels.sources; repositories are written by the tests with the git of the machine."""
