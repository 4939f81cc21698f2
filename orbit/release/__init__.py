"""What is written down about a run, and (later) whether it may be called a release."""
