# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/papers/epic/report.py: every table of the tree has a plot, with the numbers of its cells."""

import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "papers" / "epic"))

import report  # noqa: E402

FOLDER = ROOT / "bench" / "papers" / "epic"
FILES = [FOLDER / "tables.md", *(file for file in map(FOLDER.joinpath, report.FILES[1:]) if file.exists())]
SVG = "{http://www.w3.org/2000/svg}"
TABLE = """# Tables

## Table 1: AllReduce, Gbit/s by bytes of the vector

Words.

|  | 4K | 16K | 1M |
|---|---|---|---|
| mode ii, here | 7.34 | 23.5 (23.1 to 24.0) | a rank gives up |
| mode ii, EPIC | 6.10 | 20.35 | 48.83 |
| difference | +20 % | +15 % | |

## Table 2: rates, per second

| tree | ranks | here | EPIC |
|---|---|---|---|
| Tree-2-8 | 8 | 4.93e+05 | 2e+05 |
| Tree-3-8 | 64 | 100 |  |
"""


class ReportTest(unittest.TestCase):
    def test_places_are_numbers_and_names_are_none(self):
        for text, place in (("4K", 4096), ("1G", 1 << 30), ("0.5", 0.5), ("0.1 %", 0.1), ("no loss", 0),
                            ("away 5000 us", 5000), ("mode ii", None), ("(1)", None), ("", None)):
            self.assertEqual(report.place(text), place, text)

    def test_cells_have_a_value_and_a_range(self):
        for text, value in (("7.34", (7.34, None, None)), ("23.5 (23.1 to 24.0)", (23.5, 23.1, 24.0)),
                            ("4.93e+05", (4.93e5, None, None)), ("a rank gives up", None), ("+20 %", None), ("", None)):
            self.assertEqual(report.value(text), value, text)

    def test_a_curve_has_what_its_row_has_and_the_papers_is_dashed(self):
        table = report.read(TABLE)[0]
        here, paper = report.lines_of(table)
        self.assertEqual((here.name, here.points, here.dashed), ("mode ii, here", [(4096, 7.34), (16384, 23.5)], False))
        self.assertEqual((paper.points[2], paper.dashed), ((1 << 20, 48.83), True))
        svg = ElementTree.fromstring(report.plot(table))
        self.assertEqual(len(list(svg.iter(f"{SVG}circle"))), 2)
        self.assertIn("bytes of the vector", ["".join(t.itertext()) for t in svg.iter(f"{SVG}text")])

    def test_what_has_no_axis_becomes_bars_without_what_is_no_result(self):
        rows, series = report.bars_of(report.read(TABLE)[1])
        self.assertEqual(series, ["here", "EPIC"])
        self.assertEqual([(row.label, [bar and bar.value for bar in row.bars]) for row in rows],
                         [("Tree-2-8", [4.93e5, 2e5]), ("Tree-3-8", [100, None])])

    def test_a_row_that_does_not_fit_is_named(self):
        with self.assertRaisesRegex(ValueError, "Table 3: a row of 2 cells under 3"):
            report.read("## Table 3\n\n| a | b | c |\n|---|---|---|\n| 1 | 2 |\n")

    def test_each_file_has_a_section_with_its_title(self):
        html = report.report([TABLE, TABLE.replace("# Tables", "# Tables of guests")])
        self.assertEqual(re.findall(r"<h[12]>(.*?)</h[12]>", html),
                         ["EPIC by weft", "Tables", "Table 1: AllReduce, Gbit/s by bytes of the vector",
                          "Table 2: rates, per second", "Tables of guests",
                          "Table 1: AllReduce, Gbit/s by bytes of the vector", "Table 2: rates, per second"])

    def test_every_table_of_the_tree_has_a_plot_with_its_numbers(self):
        html = report.report([file.read_text(encoding="utf-8") for file in FILES])
        self.assertNotRegex(html, r"(?:src|href)=")
        plots = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
        tables = [table for file in FILES for table in report.read(file.read_text(encoding="utf-8"))]
        self.assertEqual(len(plots), len(tables))
        for table, plot in zip(tables, plots):
            with self.subTest(table.title):
                svg = ElementTree.fromstring(plot)
                cells = sum(report.value(cell) is not None for row in table.rows if row[0] != "difference"
                            for name, cell in zip(table.head, row) if name not in report.NO_RESULTS)
                lines = report.lines_of(table)
                shown = sum(len(line.points) for line in lines) if lines else sum(
                    bar is not None for row in report.bars_of(table)[0] for bar in row.bars)
                self.assertEqual(shown, cells)
                self.assertGreater(shown, 2)
                if lines:
                    self.assertEqual(len([p for p in svg.iter(f"{SVG}path")]), len(lines))
                else:
                    self.assertEqual(len(list(svg.iter(f"{SVG}title"))), shown)


if __name__ == "__main__":
    unittest.main()
