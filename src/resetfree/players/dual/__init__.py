"""Players that choose the multiplier function."""
