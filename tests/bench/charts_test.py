# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""bench/report: charts are well-formed SVG whose shapes have the sizes of their values; pages load nothing."""

import math
import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from bench.report import charts, page  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def bars(svg):
    """(x, width, hover text) of each bar."""
    return [
        (float(rect.get("x")), float(rect.get("width")), rect.find(f"{SVG}title").text)
        for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect")
        if rect.find(f"{SVG}title") is not None
    ]


def texts(svg):
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


class BarChartTest(unittest.TestCase):
    def test_widths_are_in_proportion_to_values(self):
        rows = [charts.Row("a", [charts.Bar(10)]), charts.Row("b", [charts.Bar(25)])]
        (_, first, _), (_, second, _) = bars(charts.bar_chart(rows, "Mpps"))
        self.assertAlmostEqual(second / first, 2.5, places=2)

    def test_a_missing_bar_leaves_the_colours_of_the_others(self):
        rows = [charts.Row("a", [None, charts.Bar(1)])]
        svg = charts.bar_chart(rows, "x", series=("one", "two"))
        self.assertEqual(len(bars(svg)), 1)
        self.assertIn('class="f2"><title>a two', svg)

    def test_spread_marks_and_labels_with_special_characters_are_drawn(self):
        rows = [charts.Row("<a & b>", [charts.Bar(10, 9, 12, "noisy")])]
        svg = charts.bar_chart(rows, "Mpps", marks=[charts.Mark(11, "target")], label='"quoted"')
        self.assertTrue({"<a & b>", "10 noisy", "target", "Mpps"} <= set(texts(svg)))
        self.assertEqual(svg.count('class="range"'), 1)
        self.assertEqual(svg.count('class="mark"'), 1)

    def test_whole_numbers_are_written_whole(self):
        svg = charts.bar_chart([charts.Row("a", [charts.Bar(0)]), charts.Row("b", [charts.Bar(21454)])], "packets")
        self.assertTrue({"0", "21,454"} <= set(texts(svg)))

    def test_parts_of_a_stack_follow_one_another(self):
        svg = charts.stacked_bar_chart([("row", [10, 30])], "cycles", ("a", "b"))
        (x, first, _), (next_x, second, hover) = bars(svg)
        self.assertAlmostEqual(x + first, next_x, places=1)
        self.assertAlmostEqual(second / first, 3, places=1)
        self.assertEqual(hover, "row, b: 30 cycles")
        self.assertIn("40.0", texts(svg))
        svg = charts.stacked_bar_chart([("row", [10, 30])], "cycles", ("a", "b"), shares=True)
        self.assertNotIn("40.0", texts(svg))


class LineChartTest(unittest.TestCase):
    def points(self, svg):
        path = [p.get("d") for p in ElementTree.fromstring(svg).iter(f"{SVG}path")][0]
        return [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]

    def test_larger_values_lie_further_right_and_higher(self):
        (x1, y1), (x2, y2) = self.points(charts.line_chart([charts.Line("l", [(1, 1), (2, 5)])], "x", "y"))
        self.assertLess(x1, x2)
        self.assertGreater(y1, y2)

    def test_decades_of_a_logarithmic_axis_are_equally_wide(self):
        points = [(1, 0), (10, 1), (100, 2), (1000, 3)]
        xs = [x for x, _ in self.points(charts.line_chart([charts.Line("l", points)], "x", "y", x_log=True))]
        self.assertAlmostEqual(xs[1] - xs[0], xs[3] - xs[2], places=1)

    def test_a_step_line_has_only_horizontal_and_vertical_parts(self):
        svg = charts.line_chart([charts.Line("l", [(0, 0), (1, 1), (2, 0)], step=True)], "x", "y")
        path = [p.get("d") for p in ElementTree.fromstring(svg).iter(f"{SVG}path")][0]
        self.assertEqual(re.sub(r"[^A-Z]", "", path), "MHVHV")

    def test_empty_lines_and_equal_values_are_drawn(self):
        for line in (charts.Line("l", []), charts.Line("l", [(5, 5)], dots=True), charts.Line("l", [(0, 0), (0, 0)])):
            ElementTree.fromstring(charts.line_chart([line], "x", "y"))


class ScaleTest(unittest.TestCase):
    def test_ticks_enclose_the_values_in_round_steps(self):
        for low, high in ((0, 59.4), (0.2, 0.9), (-3, 7), (12, 12), (1e-6, 3e-6), (0, 1.5e9)):
            ticks = charts.nice_ticks(low, high)
            self.assertLessEqual(ticks[0], low)
            self.assertGreaterEqual(ticks[-1], high - 1e-9 * abs(high))
            mantissa = (ticks[1] - ticks[0]) / 10 ** math.floor(math.log10((ticks[1] - ticks[0]) * 1.0001))
            self.assertIn(round(mantissa, 3), (1, 2, 2.5, 5))

    def test_numbers_are_written_shortly(self):
        written = [charts.format_number(value) for value in (0, 0.25, 12.5, 1500, 2e6, 1.5e-5)]
        self.assertEqual(written, ["0", "0.25", "12.5", "1,500", "2e6", "1.5e-5"])


class PageTest(unittest.TestCase):
    def test_a_page_is_well_formed_and_loads_nothing(self):
        made = page.Page("a < b")
        made.heading("h")
        made.paragraph("x & y")
        made.table(("name", page.Cell("text", "text")), [("<i>", page.Cell("1", "good")), (2, "3")])
        made.figure(charts.bar_chart([charts.Row("r", [charts.Bar(1)])], "u"), "caption")
        text = made.html()
        body = re.search(r"<body>.*</body>", text, re.DOTALL).group(0)
        ElementTree.fromstring(body)
        self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?:|src=|href=|url\(|@import|<script")
        self.assertIn("prefers-color-scheme:dark", text)
        self.assertIn('<td class="good">1</td>', text)

    def test_a_standalone_chart_carries_its_style(self):
        svg = charts.standalone(charts.bar_chart([charts.Row("r", [charts.Bar(1)])], "u"))
        ElementTree.fromstring(svg)
        for number in range(1, charts.SERIES_COLOURS + 1):
            self.assertIn(f"--s{number}:", svg)


if __name__ == "__main__":
    unittest.main()
