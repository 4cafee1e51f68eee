"""Settings of the documentation; build it with ``sphinx-build -W -b html docs docs/_build/html``."""

import os
import sys
from pathlib import Path

import mdf_loop

HERE = Path(__file__).parent
sys.path.insert(
    0, str(HERE)
)  # op_table.py, openvino_table.py, changelog_page.py, gallery_hooks.py, gallery_downloads.py, gallery_models.py and the pictures
os.environ.setdefault("MPLBACKEND", "agg")

project = "mdf-loop"
author = "the authors of mdf-loop"
version = release = mdf_loop.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "gallery_downloads",
    "gallery_models",
    "op_table",
    "openvino_table",
    "changelog_page",
    "house_picture",
    "quickstart_picture",
    "exported_chart",
]
exclude_patterns = ["_build", "**/sg_execution_times.rst", "sg_execution_times.rst"]
default_role = "code"
suppress_warnings = ["ref.python"]  # several classes have an attribute of one name

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False
napoleon_use_rtype = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "copyfile_regex": r".*\.(yaml|json|png)$",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "capture_repr": (),
    "within_subsection_order": "FileNameSortKey",
    "show_signature": False,
    "plot_gallery": True,
    "only_warn_on_example_error": False,
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib", "gallery_hooks.say_file", "gallery_hooks.for_both_pages"),
}

html_theme = "pydata_sphinx_theme"
html_title = "mdf-loop"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_sidebars = {page: [] for page in ("index", "quickstart", "concepts", "search", "gallery/index", "gallery/*")}
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-field"],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
}
