"""What an image is for (profile, targets) and what it is made of (the lock)."""
