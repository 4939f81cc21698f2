"""Read container images layer by layer, without unpacking them."""
