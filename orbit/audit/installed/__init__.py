"""Read an environment on disk: its tree, its distributions, digests, small files, and what is remembered of them."""
