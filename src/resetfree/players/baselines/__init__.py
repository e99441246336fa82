"""What others do, as players of the same game: small faithful versions, each file says what was kept and changed."""
