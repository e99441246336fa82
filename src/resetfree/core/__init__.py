"""Building blocks that every other room uses and that know nothing of learning; nothing here imports another room.

Read `errors` and `settings` first: every message to a user and every declared option comes from there.

input        settings (one validator for declared fields), arguments (checks of single values), discovery (names to
             classes: files of this package, entry points of others), extras (optional libraries, imported when used)
numbers      arrays (types), compiled (the decorator of every kernel: the same bits everywhere), certificate (a claim
             with both of its sides computed), readable (numbers and durations as people write them)
saving       state (a player's state as arrays and back), plain_tree (plans as bytes and back), files (atomic writes,
             locks); none of them pickles
the system   system (processes, priorities), interrupts (Ctrl-C and SIGTERM), ticks (loops at a fixed rate), web (which
             requests a server accepts)
"""
