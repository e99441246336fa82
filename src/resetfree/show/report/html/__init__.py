"""The report: run files in, one self-contained HTML file out. It reads run files only, and names no player.

Data flow: `groups` (run files, grouped by their specs) -> `series` (the shown points of a curve) -> figures
(`learning_curves`, `timing`, `players`, `maps`, `comparing`, each a `Drawing`) and `html_tables` -> `page` ->
`assembling`.
"""

from resetfree.show.report.html.build_report import WrittenReport, write_report

__all__ = ["WrittenReport", "write_report"]
