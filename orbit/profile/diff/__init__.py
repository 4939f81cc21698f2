"""What differs between two locks, and what follows from it."""
