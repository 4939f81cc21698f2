"""What is known and what is right, as data: expectations of a profile, libraries, tags, compilers, settings."""
