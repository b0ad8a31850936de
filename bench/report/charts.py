# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
"""Bar and line charts as SVG text, for the reports of all benchmarks. Standard library only, no external resources.

A chart is a string with one <svg> element. Inside an HTML page (report/page.py) it takes its colours from the page and
follows the reader's light or dark scheme; standalone() makes a file of its own from it.
"""

import dataclasses
import html
import math

# Colours of series 1 to 8, for light and for dark paper: distinct also for colour-blind readers.
_LIGHT = ("#2368b0", "#d17a12", "#23865a", "#8254b5", "#c03a3a", "#1c8b97", "#7d7f88", "#a9820b")
_DARK = ("#6aa9ec", "#f0a04b", "#5cc596", "#b592e3", "#ef7f7a", "#5cc7d3", "#a7aab4", "#dcb844")
SERIES_COLOURS = len(_LIGHT)

_CHARACTER_PX = 7.3  # mean advance at this size of DejaVu Sans, the widest of the fonts that STYLE names


def _variables(colours, ink, muted, grid, paper):
    series = "".join(f"--s{number}:{colour};" for number, colour in enumerate(colours, 1))
    return f"{series}--ink:{ink};--muted:{muted};--grid:{grid};--paper:{paper};"


LIGHT_VARIABLES = _variables(_LIGHT, "#1c1e22", "#5d626c", "#d9dce1", "#ffffff")
DARK_VARIABLES = _variables(_DARK, "#e7e9ed", "#a3a8b3", "#3a3e46", "#17191d")

STYLE = (
    ".chart{font:12px system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;max-width:100%;height:auto}"
    ".chart text{fill:var(--ink)}.chart .axis{fill:var(--muted)}"
    ".chart .value{font-variant-numeric:tabular-nums;paint-order:stroke;stroke:var(--paper);stroke-width:3px}"
    ".chart .grid{stroke:var(--grid)}.chart .base{stroke:var(--muted)}"
    ".chart .range{stroke:var(--ink);fill:none;stroke-width:1.3}"
    ".chart .mark{stroke:var(--ink);stroke-dasharray:4 3;stroke-width:1.2}"
    + "".join(
        f".chart .f{number}{{fill:var(--s{number})}}.chart .l{number}{{stroke:var(--s{number});fill:none}}"
        for number in range(1, SERIES_COLOURS + 1)
    )
)


def standalone(svg):
    """A chart as the text of an SVG file that stands alone."""
    style = f":root{{{LIGHT_VARIABLES}}}@media(prefers-color-scheme:dark){{:root{{{DARK_VARIABLES}}}}}"
    head, separator, tail = svg.partition(">")
    return f'{head}{separator}<style>{style}{STYLE}</style><rect width="100%" height="100%" fill="var(--paper)"/>{tail}'


# --- scales ----------------------------------------------------------------------------------------------------------


def nice_ticks(low, high, count=5):
    """Round numbers, about `count` steps of 1, 2, 2.5 or 5 times a power of ten, that enclose low and high."""
    span = (high - low) or abs(high) or 1.0
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def format_number(value):
    """A number as short as an axis needs it."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:,.6g}" if abs(value) >= 100 else f"{value:.4g}"


class Scale:
    """Maps values to pixels, linearly or by the logarithm."""

    def __init__(self, values, first_px, last_px, *, log=False, from_zero=False):
        finite = [value for value in values if value is not None and math.isfinite(value) and (value > 0 or not log)]
        low, high = (min(finite), max(finite)) if finite else (1.0 if log else 0.0, 1.0)
        self._log = log
        if log:
            first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
            self.ticks = [10.0**power for power in range(first, max(last, first + 1) + 1)]
        else:
            self.ticks = nice_ticks(min(low, 0.0) if from_zero else low, high)
        self._low, self._high = self._of(self.ticks[0]), self._of(self.ticks[-1])
        self._first_px, self._last_px = first_px, last_px

    def _of(self, value):
        return math.log10(value) if self._log else value

    def __call__(self, value):
        if self._log and value <= 0:
            return self._first_px
        share = (self._of(value) - self._low) / (self._high - self._low)
        return round(self._first_px + share * (self._last_px - self._first_px), 2)


# --- elements --------------------------------------------------------------------------------------------------------


def _text(x, y, text, anchor="start", css="axis", extra=""):
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{css}"{extra}>{html.escape(text)}</text>'


def _line(x1, y1, x2, y2, css):
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{css}"/>'


def text_px(text):
    """Width of a text in pixels, estimated."""
    return len(text) * _CHARACTER_PX


def _legend(names, left, top, right, colours=None):
    """(elements, height) of a legend that wraps between left and right. The colours are those of series otherwise."""
    parts, x, y = [], left, top
    for number, name in enumerate(names):
        width = 18 + text_px(name) + 14
        if x > left and x + width > right:
            x, y = left, y + 18
        colour = colours[number] if colours else number % SERIES_COLOURS + 1
        parts.append(f'<rect x="{x:g}" y="{y:g}" width="12" height="12" rx="2" class="f{colour}"/>')
        parts.append(_text(x + 18, y + 10, name, css="label"))
        x += width
    return parts, y - top + 18 + 6


def _svg(width, height, label, parts):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" aria-label="{html.escape(label, quote=True)}">' + "".join(parts) + "</svg>"
    )


# --- bars ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bar, its value not negative; an int is written without decimals. low and high draw the spread of the
    measurements around value."""

    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""  # stands after the number


@dataclasses.dataclass(frozen=True)
class Row:
    """One labelled row of a bar chart: a Bar per series, None where there is no value."""

    label: str
    bars: list
    colour: int = 0  # 1 to SERIES_COLOURS for all bars of the row, 0 for the colours of their series


@dataclasses.dataclass(frozen=True)
class Mark:
    """A vertical line across a bar chart, such as a target."""

    value: float
    label: str


_BAR_PX = 18
_GAP_PX = 9


class _Rows:
    """The frame of a horizontal bar chart: legend, labels, value axis and marks. It leaves the bars to the caller."""

    def __init__(self, labels, row_px, highest, unit, legend, marks, width, note_px):
        self._left = min(max([text_px(text) for text in labels] + [40]) + 14, width * 0.45)
        self._width, self._row_px, self._marks = width, row_px, marks
        self.numbers = []  # texts of values, above everything else
        self.parts, self._top = _legend(legend, self._left, 4, width) if len(legend) > 1 else ([], 4)
        self._top += 13 * len(marks) + (3 if marks else 0)
        self._bottom = self._top + len(labels) * row_px
        values = [0.0, *highest, *(mark.value for mark in marks)]
        self.scale = Scale(values, self._left, width - note_px, from_zero=True)
        for tick in self.scale.ticks:
            x = self.scale(tick)
            self.parts += [_line(x, self._top, x, self._bottom, "grid")]
            self.parts.append(_text(x, self._bottom + 16, format_number(tick), "middle"))
        self.parts.append(_text((self._left + width - note_px) / 2, self._bottom + 33, unit, "middle"))
        for number, text in enumerate(labels):
            middle = self._top + (number + 0.5) * row_px
            self.parts.append(_text(self._left - 8, middle + 4, text, "end", "label"))

    def top_of(self, number):
        """Where the bars of a row begin."""
        return self._top + number * self._row_px + _GAP_PX / 2

    def svg(self, label):
        self.parts.append(_line(self._left, self._top, self._left, self._bottom, "base"))
        for number, mark in enumerate(self._marks):
            # Each label has a line of its own, because marks may lie close together.
            x, y = self.scale(mark.value), self._top - 13 * number - 4
            self.parts.append(_line(x, y + 2, x, self._bottom, "mark"))
            self.parts.append(_text(x, y, mark.label, "middle"))
        return _svg(self._width, self._bottom + 38, label, self.parts + self.numbers)


def bar_chart(rows, unit, *, series=("",), marks=(), width=760, label=""):
    """Horizontal bars from zero, one Row per label; with several series their bars stand under one another."""
    bars = [bar for row in rows for bar in row.bars if bar]
    highest = [bar.value if bar.high is None else bar.high for bar in bars]
    row_px = len(series) * _BAR_PX + _GAP_PX
    frame = _Rows([row.label for row in rows], row_px, highest, unit, series, marks, width, note_px=96)
    for number, row in enumerate(rows):
        for index, bar in enumerate(row.bars):
            if bar:
                colour = row.colour or index % SERIES_COLOURS + 1
                y = frame.top_of(number) + index * _BAR_PX
                shapes, text = _bar(bar, frame.scale, y, colour, f"{row.label} {series[index]}".strip(), unit)
                frame.parts += shapes
                frame.numbers.append(text)
    return frame.svg(label)


def _bar(bar, scale, y, colour, name, unit):
    """(shapes, text of the value) of one bar."""
    zero, end = scale(0.0), scale(bar.value)
    height, middle = _BAR_PX - 3, y + (_BAR_PX - 3) / 2
    parts = [_part(zero, end, y, height, colour, f"{name}: {format_number(bar.value)} {unit} {bar.note}".strip())]
    furthest = end
    if bar.low is not None and bar.high is not None:
        low, high = scale(bar.low), scale(bar.high)
        whisker = f"M{low:g} {middle - 4:g}v8M{low:g} {middle:g}H{high:g}M{high:g} {middle - 4:g}v8"
        parts.append(f'<path d="{whisker}" class="range"/>')
        furthest = max(end, high)
    if isinstance(bar.value, int):
        number = f"{bar.value:,}"
    else:
        number = f"{bar.value:.1f}" if bar.value >= 10 else f"{bar.value:.2f}"
    return parts, _text(furthest + 6, middle + 4, f"{number} {bar.note}".strip(), css="value")


def _part(start, end, y, height, colour, hover):
    return (
        f'<rect x="{start:g}" y="{y:g}" width="{max(end - start, 0):g}" height="{height}" class="f{colour}">'
        f"<title>{html.escape(hover)}</title></rect>"
    )


def stacked_bar_chart(rows, unit, series, *, marks=(), width=760, label="", shares=False):
    """Horizontal bars made of one part per series. rows are (label, [value of each series]). The total stands at each
    bar, but not with shares, where it is the same for all."""
    height = _BAR_PX + 4
    totals = [sum(values) for _, values in rows]
    frame = _Rows([name for name, _ in rows], height + _GAP_PX, totals, unit, series, marks, width, note_px=60)
    for number, (name, values) in enumerate(rows):
        y, total = frame.top_of(number), 0.0
        for index, value in enumerate(values):
            hover = f"{name}, {series[index]}: {format_number(value)} {unit}"
            ends = frame.scale(total), frame.scale(total + value)
            frame.parts.append(_part(*ends, y, height, index % SERIES_COLOURS + 1, hover))
            total += value
        if not shares:
            frame.numbers.append(_text(frame.scale(total) + 6, y + height / 2 + 4, f"{total:.1f}", css="value"))
    return frame.svg(label)


# --- lines -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Line:
    """One curve. points are (x, y); dots draws a dot at each; dashed sets it apart, as for a reference. colour is 1 to
    SERIES_COLOURS, or 0 for that of its place among the curves."""

    name: str
    points: list
    dots: bool = False
    dashed: bool = False
    step: bool = False  # keep each y until the next x, as a distribution does
    colour: int = 0


def line_chart(
    lines, x_label, y_label, *, x_log=False, y_log=False, y_from_zero=False, width=760, height=380, label=""
):
    """Curves over common axes, with a legend when there is more than one, or one with a colour of its own."""
    colours = [line.colour or number % SERIES_COLOURS + 1 for number, line in enumerate(lines)]
    parts, top = [], 8
    if len(lines) > 1 or any(line.colour for line in lines):
        parts, top = _legend([line.name for line in lines], 62, 4, width, colours)
    top += 8
    bottom = height - 46
    x_scale = Scale([x for line in lines for x, _ in line.points], 62, width - 22, log=x_log)
    y_scale = Scale([y for line in lines for _, y in line.points], bottom, top, log=y_log, from_zero=y_from_zero)
    for tick in y_scale.ticks:
        y = y_scale(tick)
        parts += [_line(62, y, width - 22, y, "grid"), _text(56, y + 4, format_number(tick), "end")]
    for tick in x_scale.ticks:
        x = x_scale(tick)
        parts += [_line(x, top, x, bottom, "grid"), _text(x, bottom + 16, format_number(tick), "middle")]
    parts += [_line(62, top, 62, bottom, "base"), _line(62, bottom, width - 22, bottom, "base")]
    parts.append(_text((62 + width - 22) / 2, height - 10, x_label, "middle"))
    turn = f' transform="rotate(-90 14 {(top + bottom) / 2:g})"'
    parts.append(_text(14, (top + bottom) / 2, y_label, "middle", extra=turn))
    for colour, line in zip(colours, lines):
        parts += _curve(line, colour, x_scale, y_scale)
    return _svg(width, height, label, parts)


def _curve(line, colour, x_scale, y_scale):
    points = [(x_scale(x), y_scale(y)) for x, y in line.points]
    if not points:
        return []
    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for x, y in points[1:]:
        path += f"H{x:g}V{y:g}" if line.step else f"L{x:g} {y:g}"
    dash = ' stroke-dasharray="6 4"' if line.dashed else ""
    parts = [f'<path d="{path}" class="l{colour}" stroke-width="2" stroke-linejoin="round"{dash}/>']
    if line.dots:
        for (x, y), (x_value, y_value) in zip(points, line.points):
            hover = html.escape(f"{line.name}: {format_number(x_value)}, {format_number(y_value)}")
            parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="3.2" class="f{colour}"><title>{hover}</title></circle>')
    return parts
