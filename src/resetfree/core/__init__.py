"""What every room uses and what knows no room: errors, certificates, checks of arguments, arrays, signals, files."""
