"""Tests of an image's entry point."""
