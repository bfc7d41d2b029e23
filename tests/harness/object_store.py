"""An S3-compatible server on loopback, over real HTTP, as a separate process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import obstore
from obstore.store import from_url

from tests.harness.processes import free_port, wait_until_answering

SECRET = "a secret nobody may see"


@dataclass(frozen=True)
class Bucket:
    """A bucket for a single test; `environment` has the client's settings."""

    endpoint: str
    environment: dict[str, str]
    name: str = field(default_factory=lambda: f"bucket-{uuid4().hex[:12]}")

    def make(self) -> "Bucket":
        httpx.put(f"{self.endpoint}/{self.name}").raise_for_status()
        return self

    def put(self, key: str, content: bytes) -> None:
        obstore.put(from_url(f"s3://{self.name}"), key, content)

    def put_raw(self, key: str, content: bytes) -> None:
        httpx.put(f"{self.endpoint}/{self.name}/{key}", content=content).raise_for_status()

    def delete(self, key: str) -> None:
        obstore.delete(from_url(f"s3://{self.name}"), key)

    def downloads(self) -> int:
        lines = Path(self.environment["LOG"]).read_text().splitlines()
        return sum(f'"GET /{self.name}/' in line and "list-type" not in line for line in lines)


@contextmanager
def object_store(log: str) -> Iterator[Bucket]:
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    environment = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }
    with Path(log).open("wb") as file:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, env=os.environ | environment, stdout=file, stderr=file)
    try:
        wait_until_answering(endpoint, process, output=Path(log))
        yield Bucket(endpoint, environment | {"LOG": log})
    finally:
        process.kill()
        process.wait(30)
