"""Writers of the smallest files that hold a fact: ELF, fatbin, installed distributions, broken environments."""
