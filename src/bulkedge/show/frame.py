"""The frame of a page that stands alone: readable in light and dark, no script, everything escaped."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from typing import Any

from bulkedge.show import style

_CSS = """
:root { color-scheme: light dark; --ink: #1b1b1b; --soft: #5b5b5b; --page: #fdfdfc; --line: #d9d9d4; --card: #f3f3f0;
  --agrees: #00704f; --disagrees: #b34700; --undecided: #6b5b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --soft: #a8a8a8; --page: #161618; --line: #3a3a3d;
  --card: #212124; --agrees: #4fd1a5; --disagrees: #ff9b57; --undecided: #e2c94d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2.5rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 1.0625rem/1.55 Georgia, "Times New Roman", serif; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .75rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
.answer { font-size: 1.15rem; margin: 0 0 1rem; } .soft, figcaption, footer { color: var(--soft); font-size: .92rem; }
.verdict { border-left: .3rem solid; padding: .5rem .9rem; background: var(--card); }
.agrees { color: var(--agrees); } .disagrees { color: var(--disagrees); } .undecided { color: var(--undecided); }
.verdict b { text-transform: capitalize; } .verdict span, .verdict ul { color: var(--ink); }
.verdict ul { margin: .3rem 0 0; padding-left: 1.2rem; font-size: .98rem; line-height: 1.45; }
figure { margin: 1.2rem 0; } img { display: block; width: 100%; background: #fff; border: 1px solid var(--line);
  border-radius: .3rem; padding: .6rem; }
figcaption { margin-top: .4rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { text-align: right; padding: .22rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums; } th:first-child, td:first-child { text-align: left; }
pre { background: var(--card); padding: .8rem 1rem; overflow-x: auto; border-radius: .3rem; font-size: .85rem; }
details { margin-top: 1rem; } summary { cursor: pointer; }
"""


def document(title: str, body: Iterable[str]) -> str:
    """A whole page of parts that are HTML already."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def text(value: Any) -> str:
    """Anything, escaped."""
    return html.escape(str(value), quote=True)


def picture(figure: Any, caption: str, alt: str, width: str = "100%") -> str:
    """A figure as an image inside the page."""
    picture = base64.b64encode(style.to_bytes(figure, "svg")).decode("ascii")
    return (
        f'<figure style="max-width:{width}"><img alt="{text(alt)}" src="data:image/svg+xml;base64,{picture}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )
