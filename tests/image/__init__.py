"""Tests of the image stage."""
