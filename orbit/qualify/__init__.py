"""Numerical qualification: does this environment, image or GPU compute what another one computes?

``python -m orbit.qualify`` runs a frozen batch with this interpreter and writes a record; ``orbit qualify compare``
compares two records and names the first operation that differs. Everything here is pure Python and runs on any laptop,
except ``stack/``, which needs torch and runs in processes of its own. Page: docs/qualify.md.
"""
