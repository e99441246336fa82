"""Published methods as players of the same game: small faithful versions; each file lists what was kept and changed."""
