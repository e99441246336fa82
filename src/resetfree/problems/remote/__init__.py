"""Machines at the other end of a wire: a small protocol over UDP or a serial line, both of its ends, and the problem.

`packets` has the bytes and what a machine says of itself, `wires` the ways that packets take. The machine's end is
`station` (sessions, watchdog, lever, ticks), with `faults` of the way; `resetfree machine` serves those of
`problems.machines`. The learner's end is `remote_machine`. The page is docs/connect_your_machine.md.
"""

from resetfree.problems.remote.station import Serving, Station

__all__ = ["Serving", "Station"]
