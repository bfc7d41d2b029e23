"""`carrel`, and `python -m cli`."""

import sys
from importlib.util import find_spec


def main() -> None:
    # The bare SDK is installed without these; commands import rich when they are called.
    if any(find_spec(name) is None for name in ("typer", "rich")):
        sys.stderr.write("The command line needs typer and rich. In Carrel's folder, run: pip install -e '.[cli]'\n")
        sys.exit(2)
    from cli.app import run  # noqa: PLC0415 - not without typer

    sys.exit(run())


if __name__ == "__main__":
    main()
