"""The gate: whether an image may be called a release, decided from evidence alone.

``model`` is the definition (``ci/gate.toml``), ``collect`` turns files into frozen facts, ``decide`` is pure, and
``cleanroom`` builds everything again where nothing is known. Page: docs/gate.md.
"""
