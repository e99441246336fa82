"""Who plays many trials: processes of this machine, a Ray cluster, or all seeds at once on an accelerator."""
