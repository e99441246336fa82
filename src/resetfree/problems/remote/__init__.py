"""Machines at the other end of a wire: a small protocol over UDP or a serial line, both of its ends, and the problem.

`packets` has the bytes and `statement` what a machine says of itself. The machine's end is `station` (sessions,
watchdog, lever, faults) and `serving`; `resetfree machine` serves the machines of `problems.machines.served`. The
learner's end is `wires`, `machine_client` and `remote_machine`. The page is docs/connect_your_machine.md.
"""
