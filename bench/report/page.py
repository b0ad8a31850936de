# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""One HTML file with text, tables and charts: the report of a benchmark. It loads nothing and has no scripts."""

import html

from bench.report import charts

_STYLE = (
    "body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "max-width:860px;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}p{max-width:72ch}"
    "figure{margin:1rem 0}figcaption{color:var(--muted);font-size:.9em;max-width:80ch}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92em}"
    "th,td{padding:.25em .7em;border-bottom:1px solid var(--grid);text-align:right;white-space:nowrap}"
    "th:first-child,td:first-child,th.text,td.text{text-align:left}th{color:var(--muted);font-weight:600}"
    "td.good{color:var(--s3);font-weight:600}td.fair{color:var(--s2);font-weight:600}"
    "td.bad{color:var(--s5);font-weight:600}"
)


class Cell:
    """A table cell with a mood: "good", "fair" or "bad" colours it, "text" sets it to the left."""

    def __init__(self, text, mood=""):
        self.text = text
        self.mood = mood


class Page:
    """Collects the parts of a report in order; html() is the file."""

    def __init__(self, title):
        self._title = title
        self._parts = [f"<h1>{html.escape(title)}</h1>"]

    def section(self, text):
        """Begins a part of the page with headings of its own."""
        self._parts.append(f"<h1>{html.escape(text)}</h1>")

    def heading(self, text):
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def paragraph(self, text):
        self._parts.append(f"<p>{html.escape(text)}</p>")

    def figure(self, svg, caption=""):
        """A chart of report/charts.py with a line of text under it."""
        below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        self._parts.append(f'<figure><div class="wide">{svg}</div>{below}</figure>')

    def table(self, header, rows):
        """header and rows hold texts, or Cells where one needs a mood. The first column is set to the left."""
        head = "".join(self._cell(cell, "th") for cell in header)
        body = "".join("<tr>" + "".join(map(self._cell, row)) + "</tr>" for row in rows)
        self._parts.append(
            f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    @staticmethod
    def _cell(cell, tag="td"):
        cell = cell if isinstance(cell, Cell) else Cell(str(cell))
        mood = f' class="{html.escape(cell.mood)}"' if cell.mood else ""
        return f"<{tag}{mood}>{html.escape(cell.text)}</{tag}>"

    def html(self):
        style = (
            f":root{{color-scheme:light dark;{charts.LIGHT_VARIABLES}}}"
            f"@media(prefers-color-scheme:dark){{:root{{{charts.DARK_VARIABLES}}}}}"
            f"{_STYLE}{charts.STYLE}"
        )
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{html.escape(self._title)}</title><style>{style}</style></head>\n<body>\n"
            + "\n".join(self._parts)
            + "\n</body></html>\n"
        )
