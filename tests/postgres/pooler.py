"""PgBouncer in transaction mode in front of a test server."""

import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

import psycopg

from tests.postgres.cluster import Cluster, as_user, free_port, own

BINARY = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")

_CONFIG = """
[databases]
postgres = host=127.0.0.1 port={server} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
logfile = {folder}/pgbouncer.log
pidfile =
"""


class Pooler:
    """A `pgbouncer` process; four connections of the server serve all clients."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder = folder
        self.cluster = cluster
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        assert BINARY is not None
        own(self.folder)
        config = self.folder / "pgbouncer.ini"
        config.write_text(
            _CONFIG.format(server=self.cluster.port, port=self.port, folder=self.folder)
        )
        self.process = subprocess.Popen(
            [BINARY, "-q", str(config)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user(),
        )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.dsn()).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def __exit__(self, *exc_info: object) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)

    def dsn(self) -> str:
        """Return a connection string for the pooler."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"
