"""Configuration of the documentation for Sphinx."""

import builtins
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import penstock

project = "Penstock for Python"
author = "The Penstock authors"
version = release = penstock.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"{project} {release}"
html_show_sourcelink = False

add_module_names = False
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "exclude-members": "model_config, model_post_init, bound_to, read_from",
}


def _read_sections(
    _: Sphinx, what: Any, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Turns the sections of a docstring, such as `Args:`, into fields. Attributes have none."""
    if what != "attribute":
        lines[:] = GoogleDocstring(lines, None, None, what, name, obj, options).lines()


def _unlink_builtins(_: Sphinx, doctree: nodes.document) -> None:
    """Takes the links from names such as `bytes`, which are also those of fields of ours."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link["refdomain"] == "py" and hasattr(builtins, link["reftarget"]):
            link.replace_self(link.children)


def setup(app: Sphinx) -> None:
    """Extends Sphinx."""
    app.connect("autodoc-process-docstring", _read_sections)
    app.connect("doctree-read", _unlink_builtins)
