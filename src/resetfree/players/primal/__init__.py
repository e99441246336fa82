"""Players that choose the policy."""
