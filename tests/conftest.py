"""What all tests share."""

from __future__ import annotations

import signal

# A shell that starts us in the background has Ctrl-C ignored, and every process that a test starts would inherit that.
# The tests send the signal on purpose: they need what it does in the foreground, here and in their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
