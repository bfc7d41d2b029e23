"""`carrel`, and `python -m cli`."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from cli.app import run  # noqa: PLC0415 - the bare SDK comes without what this needs
    except ModuleNotFoundError as exc:
        if exc.name not in {"typer", "rich"}:
            raise
        sys.stderr.write("The command line needs typer and rich: in Carrel's folder, pip install -e '.[cli]'\n")
        sys.exit(2)
    sys.exit(run())


if __name__ == "__main__":
    main()
