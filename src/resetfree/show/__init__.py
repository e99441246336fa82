"""What people see: the command line, reports, the studio."""
