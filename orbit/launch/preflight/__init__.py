"""Whether a node is fit for a job, asked on the node before anything else starts there."""
