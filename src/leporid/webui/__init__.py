"""The web UI: static files, as browsers get them.

Responsible for where these files are. They are ES modules, stylesheets and `index.html`, without
a build step: `core/` fetches and routes, `parts/` has one component a file, `pages/` one page a
file, `vendor/` what others wrote. Must not know how files are served (`server.web_pages`), nor
anything else in Python.
Invariant: the page uses the management API and nothing beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
"""Where `index.html` is."""
