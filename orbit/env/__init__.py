"""What is installed: create an environment from the lock, and the CUDA_HOME inside it."""
