"""What a cluster is, as data: ``env/sites/*.toml``."""
