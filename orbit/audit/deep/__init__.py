"""What ``--deep`` reads: the kernels inside device code, for each target."""
