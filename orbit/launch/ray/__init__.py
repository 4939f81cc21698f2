"""A Ray cluster of one job's own: its ports, its folder, its token; brought up, watched and taken down."""
