"""What exactly runs: image, lock, kernels, interpreter, libraries that are really mapped, driver, device."""
