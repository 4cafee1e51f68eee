"""Settings of the documentation; build it with ``sphinx-build -W -b html docs docs/_build/html``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # op_table.py, openvino_table.py, house_picture.py

import mdf_loop

project = "mdf-loop"
author = "the authors of mdf-loop"
version = release = mdf_loop.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "op_table", "openvino_table", "house_picture"]
exclude_patterns = ["_build"]
default_role = "code"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = "mdf-loop"
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": False, "show_toc_level": 2}
