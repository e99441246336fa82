"""Engines that play many trials: local processes, a Ray cluster, or all seeds at once on an accelerator."""
