"""Wheels of the lock that are verified instead of compiled, and packages that compile at run time."""
