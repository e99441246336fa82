"""The contract battery: checks that every player must pass, and that anybody can run on a player of their own."""
