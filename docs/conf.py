"""Settings of the documentation site; `make docs` builds it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

import nmax

project, author, copyright = "nmax", "the nmax developers", "the nmax developers"
version = release = nmax.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docstrings", "mathml"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings: list[str] = []

html_theme, html_title = "furo", "nmax"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "native"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, not an entry each
python_maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"

# References to public names must lead somewhere. Other libraries are not looked up, since that would need the network.
nitpick_ignore_regex = [(r"py:.*", r"(?!nmax\b).*"), (r"py:.*", r"nmax\.(.*\.)?_.*")]
