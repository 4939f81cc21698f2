"""All facts of one file: its ELF facts, its release, its text; from a file on disk or from a stream that goes by."""
