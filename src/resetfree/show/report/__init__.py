"""Pictures, films, tables and pages: what a person looks at."""
