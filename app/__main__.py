"""`python -m app`: start the workbench."""

import sys
from pathlib import Path

from streamlit.web import cli

from app.settings import settings


def main() -> None:
    """Run Streamlit on the address of the settings, in the light or the dark theme that a person's system prefers."""
    chosen = settings()
    script = Path(__file__).with_name("main.py")
    sys.argv = [
        "streamlit",
        "run",
        str(script),
        f"--server.address={chosen.app_host}",
        f"--server.port={chosen.app_port}",
        "--server.headless=true",
        "--server.fileWatcherType=none",
        "--server.maxUploadSize=100",
        "--browser.gatherUsageStats=false",
        "--runner.magicEnabled=false",
        "--client.toolbarMode=minimal",
        "--theme.font=sans-serif",
        "--theme.light.primaryColor=#1f5f6b",
        "--theme.dark.primaryColor=#318b9a",
    ]
    cli.main()


if __name__ == "__main__":
    main()
