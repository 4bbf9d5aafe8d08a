"""A proxy between client and server that cuts connections before an answer comes back."""

import random
import select
import socket
import threading
from contextlib import suppress

_SETTLED = 12
"""Answers that a connection passes before it may be cut: it is then open and in use."""


class Proxy:
    """Passes bytes on, in threads of its own.

    Args:
        port: The port of the server.
        chance: How likely it is that an answer is cut; the statement has been run by then.
        seed: Of the random numbers.
    """

    def __init__(self, port: int, chance: float = 0.0, seed: int = 0) -> None:
        self.server = port
        self.chance = chance
        self.cuts = 0
        self.cut_next = threading.Event()
        """Set it to have the next answer cut."""
        self.passes = 0
        """How many answers pass before the one that `cut_next` cuts."""
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            client,
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self.server)) as server,
        ):
            self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        answers = 0
        while True:
            for ready in select.select([client, server], [], [])[0]:
                data = ready.recv(1 << 16)
                if not data:
                    return
                if ready is server:
                    answers += 1
                    if answers > _SETTLED and self._is_cut():
                        return
                (client if ready is server else server).sendall(data)

    def _is_cut(self) -> bool:
        if not self.cut_next.is_set() and self._random.random() >= self.chance:
            return False
        if self.passes:
            self.passes -= 1
            return False
        self.cut_next.clear()
        self.cuts += 1
        return True
