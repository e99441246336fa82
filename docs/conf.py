"""How the site is built: `make docs`. Strict (a warning is an error), and nothing in it is loaded from elsewhere."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import resetfree

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "resetfree"
author = "the authors of resetfree"
release = version = resetfree.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
extensions += ["_ext.plain_docstrings", "_ext.discovered", "_ext.gallery", "_ext.mathml", "_ext.offline_search"]
exclude_patterns = ["_build", "_ext", "_templates", "_static"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = myst_dmath_allow_digits = False  # "$ resetfree" and "$5" are no formulas
html_math_renderer = "mathml"
default_role = "py:obj"  # `name` in a docstring links to what it names, where that is documented
smartquotes = False  # code and formulas are quoted as they stand
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 100

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("ArrayLike", "Floats", "Bools", "State", "Starts")}  # not spelt out
# What only some extras install is not needed to read docstrings; what is there is imported as it is.
autodoc_mock_imports = [
    name for name in ("jax", "ray", "pyarrow", "starlette", "uvicorn", "tensorboardX") if find_spec(name) is None
]
# Pages that are generated elsewhere may begin below the second level of headings.
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = f"resetfree {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js", "offline_search.js"]
html_search_scorer = str(HERE / "_search_scorer.js")
html_favicon = "../src/resetfree/show/studio/static/icon.svg"
templates_path = ["_templates"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
    "top_of_page_buttons": [],
}
pygments_style, pygments_dark_style = "friendly", "monokai"
