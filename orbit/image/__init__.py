"""The image: base root file system, layers by change frequency, an OCI writer without a daemon, loading, inspection."""
