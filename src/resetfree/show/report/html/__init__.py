"""The report: run files in, one self-contained HTML file out. It reads run files only, and names no player.

Data flow: `groups` (run files, grouped by their specs, and the bounds of theorems for them) -> `figures` (points of a
curve, a `Drawing`) -> `headline` (the result, and groups compared), `learning_curves`, `players`, `maps`, `films` and
`html_tables` -> `page` (sections and HTML) -> `build_report`.
"""

from resetfree.show.report.html.build_report import WrittenReport, write_report

__all__ = ["WrittenReport", "write_report"]
