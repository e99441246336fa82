"""What people see of a run. Nothing here is needed to learn; it reads run files and the results of `runs`.

cli       the command line: one module per command; `run` is the one to read first
report    a run as one HTML file: figures, tables, certificates, and where the agent went
studio    a local web page that starts, shows and controls runs
"""
