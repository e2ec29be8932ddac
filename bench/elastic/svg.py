"""Plots as SVG of what a job's page does not draw: bars that compare jobs, and times of iterations and of single
changes. Plain elements and a style that is readable on light and dark pages."""

import math
import os
from xml.sax.saxutils import escape

COLOURS = ("#4878a8", "#e08a3c", "#5a9e5a", "#b05a78", "#8070b0", "#909090")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 340, 64, 16, 40, 76


def _ticks(most):
    """Round numbers from 0 to at least `most`."""
    step = 10 ** math.floor(math.log10(most)) if most > 0 else 1
    for factor in (0.2, 0.25, 0.5, 1, 2):
        if most / (step * factor) <= 6:
            step *= factor
            break
    return [step * n for n in range(int(math.ceil(most / step)) + 1)]


class Plot:
    def __init__(self, title, unit, most):
        self.ticks = _ticks(most)
        self.parts = [self.text(LEFT, 20, title, size=15, weight="bold")]
        for tick in self.ticks:
            y = self.y(tick)
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
                              'stroke="#888" stroke-opacity="0.35"/>')
            self.parts.append(self.text(LEFT - 8, y + 4, f"{tick:g}", anchor="end"))
        middle = (TOP + HEIGHT - BOTTOM) / 2
        self.parts.append(self.text(16, middle, unit, anchor="middle", extra=f'transform="rotate(-90 16 {middle})"'))

    @staticmethod
    def text(x, y, text, size=12, anchor="start", weight="normal", extra=""):
        return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
                f'{extra}>{escape(text)}</text>')

    def y(self, value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.ticks[-1]

    def write(self, folder, name):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                       'font-family="sans-serif" fill="#777">\n' + "\n".join(self.parts) + "\n</svg>\n")


def bars(folder, name, title, unit, groups):
    """`groups`: (label, [(label of the bar, value), ...]) each; bars of one label have one colour."""
    labels = []
    for _, group in groups:
        labels += [label for label, _ in group if label not in labels]
    plot = Plot(title, unit, max(value for _, group in groups for _, value in group))
    slots = sum(len(group) for _, group in groups) + len(groups)
    step = (WIDTH - LEFT - RIGHT) / slots
    x = LEFT + step / 2
    for text, group in groups:
        begin = x
        for label, value in group:
            colour = COLOURS[labels.index(label) % len(COLOURS)]
            top = plot.y(value)
            plot.parts.append(f'<rect x="{x:.1f}" y="{top:.1f}" width="{step * 0.88:.1f}" '
                              f'height="{plot.y(0) - top:.1f}" fill="{colour}"/>')
            plot.parts.append(plot.text(x + step * 0.44, top - 4, f"{value:.3g}", size=10, anchor="middle"))
            x += step
        plot.parts.append(plot.text((begin + x) / 2, HEIGHT - BOTTOM + 18, text, anchor="middle"))
        x += step
    x = LEFT
    for number, label in enumerate(labels):
        plot.parts.append(f'<rect x="{x}" y="{HEIGHT - 32}" width="12" height="12" '
                          f'fill="{COLOURS[number % len(COLOURS)]}"/>')
        plot.parts.append(plot.text(x + 18, HEIGHT - 22, label))
        x += 34 + 7 * len(label)
    plot.write(folder, name)


def steps(folder, name, title, unit, values, marks, below="iteration"):
    """A value for each iteration from 1 on, or whatever `below` says; `marks`: (iteration, text) each, where something
    begins."""
    plot = Plot(title, unit, max(values))
    step = (WIDTH - LEFT - RIGHT) / len(values)
    every = 5 * math.ceil(len(values) / 60)
    for number, value in enumerate(values):
        top = plot.y(value)
        plot.parts.append(f'<rect x="{LEFT + number * step:.1f}" y="{top:.1f}" width="{step * 0.85:.1f}" '
                          f'height="{plot.y(0) - top:.1f}" fill="{COLOURS[0]}"/>')
        if number == 0 or (number + 1) % every == 0:
            plot.parts.append(plot.text(LEFT + (number + 0.43) * step, HEIGHT - BOTTOM + 18, str(number + 1),
                                        anchor="middle"))
    for iteration, text in marks:
        x = LEFT + (iteration - 1) * step
        plot.parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{plot.y(0):.1f}" stroke="{COLOURS[1]}" '
                          'stroke-dasharray="4 3"/>')
        plot.parts.append(plot.text(x + 4, TOP + 2, text))
    plot.parts.append(plot.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 38, below, anchor="middle"))
    plot.write(folder, name)


def lines(folder, name, title, unit, below, series):
    """`series`: (label, [(x, y), ...]) each; `below`: what x is."""
    most = max(x for _, points in series for x, _ in points)
    plot = Plot(title, unit, max(y for _, points in series for _, y in points))
    ticks = _ticks(most)

    def place(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * x / ticks[-1]

    for tick in ticks:
        plot.parts.append(plot.text(place(tick), HEIGHT - BOTTOM + 16, f"{tick:g}", anchor="middle"))
    plot.parts.append(plot.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 32, below, anchor="middle"))
    x = LEFT
    for number, (label, points) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{place(px):.1f},{plot.y(py):.1f}" for px, py in points)
        plot.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        plot.parts.append(f'<rect x="{x}" y="{HEIGHT - 24}" width="12" height="12" fill="{colour}"/>')
        plot.parts.append(plot.text(x + 18, HEIGHT - 14, label))
        x += 34 + 7 * len(label)
    plot.write(folder, name)
