"""What is compiled: recipes, the compiler shim, builds, manifests and the capability table."""
