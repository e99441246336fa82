"""The report: run files in, one self-contained HTML file out. It reads run files only, and imports no player.

The way: `groups` (run files, taken together by what they were asked) -> `series` (what is shown of a curve) -> figures
(`learning`, `players`, `maps`, `comparing`, each a `drawing`) and `tables` -> `page` -> `building` (the whole).
"""

from resetfree.show.report.html.assembling import Report, write_report

__all__ = ["Report", "write_report"]
