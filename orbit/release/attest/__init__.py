"""Signed statements about an image: in-toto statements in DSSE envelopes, and whom to believe them.

::

    statement = make_statement("orbit/cu130", "sha256:...", SMOKE, report)
    envelope = sign_statement(statement, LocalSigner.load(path))
    write_envelope(folder / "smoke.intoto.json", envelope)

    verify(read_envelope(path), trust, predicate_type=SMOKE, subject_digest="sha256:...", now=now)   or raises

Page: docs/attest.md.
"""
