"""The release bundle: what a user downloads beside the image, and how it is checked without any network.

::

    write_bundle(folder, parts, signer) -> Bundle        whole or not at all; equal parts give equal bytes
    write_archive(folder, file)                          the same as one tar file
    verify_bundle(place, trust, now=...) -> Report       what is proven, and what is not

``model`` is the layout, ``gather`` takes the files of a run, ``read`` opens a folder or a tar file strictly, ``facts``
reads single files of it, ``claims`` judge them, ``page`` is ``RELEASE.md``. Page: docs/release.md.
"""
