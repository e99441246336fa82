"""The contract battery: checks that every player must pass, to run on players of your own as well."""
