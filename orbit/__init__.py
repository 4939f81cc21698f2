"""Orbit: one lockfile in, one verified GPU training image out."""

__version__ = "0.1.0"
