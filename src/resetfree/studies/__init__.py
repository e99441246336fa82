"""Many runs: suites that compare methods, sweeps, and the engines that play them (local processes, Ray, one GPU)."""
