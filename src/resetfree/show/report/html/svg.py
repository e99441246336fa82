"""Matplotlib's SVG prepared for a page: small, without colliding identifiers, in colours that follow light and dark.

Styles become attributes, so that the page can forbid inline styles, and so that other programs read them too.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from resetfree.show.report import style

# Colours that change on a dark page; the others (cells of maps and their text) stay.
THEMED = {
    getattr(style, name.upper()): name for name in ("ink", "blue", "orange", "green", "grey", "pink", "yellow", "sky")
}
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_HREF = "{http://www.w3.org/1999/xlink}href"
_REMOVED = ("metadata", "style")
_OMITTED = ("style", "id", "version")
_DROPPED = ("mix-blend-mode",)


def clean(text: str, prefix: str) -> str:
    """The drawing alone: no prologue, no metadata, no namespaces, two decimals, its identifiers under `prefix`."""
    root = ET.fromstring(text)
    used = _references(root)
    _tidy(root, used, prefix)
    for attribute in ("width", "height"):
        root.attrib.pop(attribute, None)
    root.set("stroke-linejoin", "round")
    root.set("stroke-linecap", "butt")
    return ET.tostring(root, encoding="unicode")


def standalone(drawing: str) -> str:
    """A cleaned drawing as a complete SVG file."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)
    assert found is not None  # Matplotlib always writes one
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{float(found[1]):g}pt" height="{float(found[2]):g}pt"'
    return '<?xml version="1.0" encoding="utf-8"?>\n' + drawing.replace("<svg", head, 1) + "\n"


def themed(drawing: str) -> str:
    """A cleaned drawing in the colours of the page, with the original colours as fallback."""
    for colour, name in THEMED.items():
        drawing = drawing.replace(f'"{colour}"', f'"var(--{name}, {colour})"')
    return drawing


def _references(root: ET.Element) -> set[str]:
    used = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            used |= set(_REFERENCE.findall(value))
            if name == _HREF:
                used.add(value.removeprefix("#"))
    return used


def _tidy(element: ET.Element, used: set[str], prefix: str) -> None:
    element.tag = element.tag.rpartition("}")[2]
    attributes = {}
    for name, value in element.attrib.items():
        if name == "id" and value in used:
            attributes["id"] = f"{prefix}-{value}"
        elif name == _HREF:
            attributes["href"] = f"#{prefix}-{value[1:]}" if value.startswith("#") else value
        elif name not in _OMITTED:
            attributes[name] = _round(" ".join(value.split()), 2 if name == "d" else 4) if name != "href" else value
    for part in filter(None, element.attrib.get("style", "").split(";")):
        name, _, value = part.partition(":")
        if name.strip() not in _DROPPED:
            attributes[name.strip()] = value.strip()
    for name, value in attributes.items():
        if "url(#" in value:
            attributes[name] = _REFERENCE.sub(lambda found: f"url(#{prefix}-{found[1]})", value)
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    element.attrib.clear()
    element.attrib.update(attributes)
    for child in list(element):
        if child.tag.rpartition("}")[2] in _REMOVED:
            element.remove(child)
        else:
            _tidy(child, used, prefix)
    if element.tag != "text":
        element.text = None
    element.tail = None


def _round(value: str, digits: int) -> str:
    return _NUMBER.sub(lambda found: f"{float(found[0]):.{digits}f}".rstrip("0").rstrip("."), value)
