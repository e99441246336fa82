"""Pictures and tables: what a person looks at."""
