"""The game between a primal player (policy) and a dual player (multiplier): contract, loop, capabilities and `auto`."""
