"""An arm puts the machine back, and every reset goes into a log."""

from pathlib import Path

from resetfree.problems.operators import Answer, Channel, Request


class Arm(Channel):
    """--operator arm, or arm:FILE for another log."""

    name = "arm"

    def __init__(self, text: str = "resets.log") -> None:
        self.log = Path(text)

    def ask(self, request: Request, deadline: float | None) -> Answer:
        """Move the arm here; if that takes longer than `deadline` seconds, raise core.errors.OperatorTimeout."""
        with self.log.open("a") as log:
            log.write(f"{request.why}: {request.detail}\n")
        return Answer("arm", "put back")
