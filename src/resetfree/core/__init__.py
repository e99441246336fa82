"""Used by every other package, imports none of them: errors, certificates, argument checks, arrays, signals, files."""
