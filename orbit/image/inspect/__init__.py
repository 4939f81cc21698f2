"""What is in an image and what fills it: layers, distributions, packages, device code; as text, JSON and a page."""
