"""The run file: one SQLite database with the spec, every round, its transitions, and the newest checkpoint.

runfile    read first: the format, and reading it as untrusted input
ledger     the writer: rounds are appended and committed, never rewritten
newfile    creating a file: its lock, its tables, atomic writes
recorded   columns and spec, and recorded episodes as a problem that can be replayed
digest     a hash chain over the contents, which shows later changes

docs/columns.md explains every column.
"""
