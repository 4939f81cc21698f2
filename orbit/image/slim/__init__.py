"""Device code that no declared target can use, and how it leaves a file, a tree and an image."""
