"""`make lab`: open JupyterLab on the notebooks, with the address and the key of the service that `make up` has started.

Both are in the environment of the kernels alone, where `Carrel()` finds them: no notebook holds a key.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

from carrel import APIConnectionError, AuthenticationError, Carrel, CarrelError
from service.platform.settings import Settings

ROOT = Path(__file__).parents[1]
FIRST = "notebooks/01-load-and-search.ipynb"
# Nothing is fetched from other hosts: no news, no list of extensions.
OPTIONS = [
    f"--ServerApp.root_dir={ROOT}",
    f"--LabApp.default_url=/lab/tree/{FIRST}",
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
]
_NEEDLESS = ("BOOTSTRAP", "PASSWORD")
_SECRETS = frozenset(
    f"CARREL_{name}".upper() for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)
)


def environment_of(path: Path) -> dict[str, str]:
    """Return this process's environment with a file's settings, but for passwords and the service's own secrets."""
    settings = {name: value or "" for name, value in dotenv_values(path, interpolate=False).items()}
    left_out = {name for name in settings if name in _SECRETS or any(part in name for part in _NEEDLESS)}
    return {name: value for name, value in settings.items() if name not in left_out} | dict(os.environ)


def find_problem(environment: Mapping[str, str]) -> str | None:
    """Return why notebooks would not work with this environment, and what to do; None when they do."""
    base_url = environment.get("CARREL_BASE_URL")
    try:
        with Carrel(environment.get("CARREL_API_KEY"), base_url, timeout=10, max_retries=0) as client:
            client.admin.organization.get()
    except APIConnectionError:
        return (
            f"Carrel doesn't answer at {base_url}. Start it with `make up` in another shell, and then `make lab` again."
        )
    except AuthenticationError:
        return f"Carrel at {base_url} doesn't take the key: is CARREL_API_KEY in .env one of this service's?"
    except CarrelError as error:
        return f"Carrel at {base_url} can't be used yet: {error}"
    return None


def main(arguments: list[str]) -> None:
    """Become JupyterLab, or say what to do first."""
    environment = environment_of(ROOT / ".env")
    problem = find_problem(environment)
    if problem:
        sys.exit(problem)
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, *as_root, *arguments]
    os.execve(sys.executable, command, environment)  # noqa: S606 - ours


if __name__ == "__main__":
    main(sys.argv[1:])
