"""Draws the figure of docs/concepts.md: what one line of a program becomes.

usage: docs/concepts_figure.py >docs/concepts.svg
"""
from html import escape

WIDTH, HEIGHT = 960, 508
PLAIN, EAGER, TAPE, TRACE = "#f4f4f4", "#e3eefc", "#fdeee0", "#e6f4e6"
COLUMN = [20, 340, 660]  # the left edges of the three columns, each 280 wide
parts = []


def box(x, y, width, height, title, lines, fill, code=False):
    font = "monospace" if code else "sans-serif"
    parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="#555"/>')
    parts.append(f'<text x="{x + 12}" y="{y + 23}" font-weight="bold">{escape(title)}</text>')
    for i, line in enumerate(lines):
        parts.append(f'<text x="{x + 12}" y="{y + 45 + 19 * i}" font-size="13" font-family="{font}">{escape(line)}</text>')


def arrow(*points):
    path = " ".join(f"{x},{y}" for x, y in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="#333" marker-end="url(#tip)"/>')


def column(x, fill, heading, boxes):
    """Boxes below each other, with arrows between them."""
    parts.append(f'<text x="{x}" y="190" font-weight="bold" font-size="15">{escape(heading)}</text>')
    y = 202
    for i, (title, lines) in enumerate(boxes):
        height = 38 + 19 * len(lines)
        box(x, y, 280, height, title, lines, fill)
        if i + 1 < len(boxes):
            arrow((x + 140, y + height), (x + 140, y + height + 20))
        y += height + 20


box(20, 20, 280, 84, "your program", ["Tensor y = relu(matmul(x, w));"], PLAIN, code=True)
box(340, 20, 600, 84, "op record", ["checks the operands, infers shape and dtype of the result;",
                                    "has the kernels (cpu:0, gpu:0, ref:0) and the gradient rules (vjp, jvp)"], PLAIN)
arrow((300, 62), (338, 62))
parts.append('<polyline points="640,104 640,130" fill="none" stroke="#333"/>')
parts.append('<polyline points="160,130 800,130" fill="none" stroke="#333"/>')
for x in COLUMN:
    arrow((x + 140, 130), (x + 140, 168))
column(COLUMN[0], EAGER, "in eager code", [
    ("kernel", ["runs now, on the operands' device"]),
    ("Tensor", ["shape, dtype, strides, device;", "its elements never change"]),
    ("buffer", ["memory, shared by all views"])])
column(COLUMN[1], TAPE, "under a GradientTape, too", [
    ("tape entry", ["op, operands, and the residuals", "that its vjp will need"]),
    ("backward walk", ["cotangents, from the target back"]),
    ("gradient", ["a Tensor for each source"])])
column(COLUMN[2], TRACE, "while a function is traced", [
    ("trace: a graph", ["a node for each op, once for each key"]),
    ("passes, fusion, memory plan", ["fewer nodes, one kernel for many"]),
    ("executable", ["first tier: the eager kernels, at once", "second tier: compiled, when ready"])])
box(20, 452, 920, 36, "Variable: state that changes. Eager code and functions read and assign it; tapes watch it.", [], PLAIN)

print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
      'font-family="sans-serif" font-size="14">')
print('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
      '<path d="M0,0 L8,4 L0,8 z" fill="#333"/></marker></defs>')
print(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
print("\n".join(parts))
print("</svg>")
