"""Web servers with the programs of the page "Web applications".

Needs servers and frameworks (`tox run -e web`), so elsewhere these tests do not exist.
"""

from __future__ import annotations

import importlib.util

NEEDED = ("celery", "django", "fastapi", "flask", "gunicorn", "uvicorn")

collect_ignore_glob = [] if all(map(importlib.util.find_spec, NEEDED)) else ["test_*.py"]
