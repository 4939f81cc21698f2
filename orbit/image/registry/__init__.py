"""Images to and from a registry: a client of the OCI distribution API 1.1 that goes on after a broken connection.

``push`` and ``pull`` are the two operations; below them ``upload`` and ``download`` move one blob, ``session`` speaks
to one registry, ``auth`` says who we are and ``transport`` is HTTP. Page: docs/image-distribution.md.
"""
