"""Tests of the comparison of two images."""
