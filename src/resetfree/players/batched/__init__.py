"""Players as JAX programs over many seeds at once; the engine that runs them is in studies."""
