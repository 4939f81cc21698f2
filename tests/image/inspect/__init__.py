"""Tests of the smoke stage of an image."""
