"""Read wheels as if they were installed, without unpacking them."""
