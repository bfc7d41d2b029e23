"""`python -m app`: start the workbench."""

import os
import sys

from streamlit.watcher import polling_path_watcher

from app.asgi import create_app
from app.settings import settings
from carrel import CarrelError


def main() -> None:
    """Serve at the configured address. The theme, light or dark, follows the person's system."""
    try:
        chosen = settings()
        app = create_app()
    except (CarrelError, ValueError, RuntimeError) as error:
        sys.exit(f"The workbench cannot start: {error}")
    os.environ.setdefault("HOME", str(chosen.app_dir))  # Streamlit looks for settings there
    # Streamlit looks for changed settings five times a second, but this program sets all of them below.
    setattr(polling_path_watcher, "_POLLING_PERIOD_SECS", 1.0)  # noqa: B010 - it is declared as final
    sys.stderr.write(f"The workbench runs at {chosen.origin}\n")
    app.run(
        config={
            "server.address": chosen.app_host,
            "server.port": chosen.app_port,
            "server.headless": True,
            "server.fileWatcherType": "none",
            "server.maxUploadSize": 100,
            "server.enableCORS": True,
            "server.enableXsrfProtection": True,
            # Unexpected errors are in the log; a page never shows code or details.
            "client.showErrorDetails": "none",
            # No page of another site may hold the workbench in a frame and send it messages.
            "client.allowedOrigins": [],
            "browser.gatherUsageStats": False,
            # For the welcome message, Streamlit would ask an external server for this machine's address.
            "logger.hideWelcomeMessage": True,
            "runner.magicEnabled": False,
            # A full garbage collection after each run would delay all people; new objects are collected anyway.
            "runner.postScriptGC": False,
            "client.toolbarMode": "minimal",
            "theme.font": "sans-serif",
            "theme.light.primaryColor": "#1f5f6b",
            "theme.dark.primaryColor": "#2b7d8b",
        }
    )


if __name__ == "__main__":
    main()
