"""Hand rendered files to a scheduler, and follow the job by its name."""
