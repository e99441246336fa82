"""One file per family of methods, each with a list METHODS; found by looking in here."""
