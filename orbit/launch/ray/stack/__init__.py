"""What imports Ray: programs of their own, run with the environment's Python."""
