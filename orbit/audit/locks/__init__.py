"""Judge what a lock will install, before it is installed."""
