"""A program: reads and writes attributes of the kernel, each request in a process of its own, which may wait in the
kernel for as long as it likes.

It runs with ``python -I -S`` on a socket at descriptor 0, imports next to nothing and has one thread, so that a fork
takes a millisecond. A request is a packet of texts with a NUL behind each: ``r PATH`` and ``w PATH TEXT``; with it come
the descriptor to answer on and that of a locked file, which stays locked until the request is through. The answer is
``0`` and each text that was read, or the errno and the path of the first operation that failed.
"""

import os
import signal
import socket

TEXT_MAX = 1 << 18
"""Bytes of a file; the kernel's attributes have a page at most, its lists of mounts and routes more."""
REQUEST_MAX = 1 << 16


def operate(arguments: list[str]) -> list[str]:
    texts = ["0"]
    words = iter(arguments)
    for operation in words:
        path = next(words)
        try:
            descriptor = os.open(path, os.O_RDONLY if operation == "r" else os.O_WRONLY)
            if operation == "r":
                texts.append(_content(descriptor).decode(errors="replace").rstrip("\n").replace("\0", ""))
            else:
                os.write(descriptor, next(words).encode())
            os.close(descriptor)
        except OSError as error:
            return [str(error.errno), path]
    return texts


def _content(descriptor: int) -> bytes:
    content = b""
    while len(content) < TEXT_MAX and (chunk := os.read(descriptor, TEXT_MAX)):
        content += chunk
    return content


def _send(descriptor: int, answer: bytes) -> None:
    while answer:
        answer = answer[os.write(descriptor, answer) :]


def serve(requests: socket.socket) -> None:
    """Until the other side is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, REQUEST_MAX, 2)
        if not request:
            return
        if not os.fork():
            answer = operate(request.decode().split("\0")[:-1])
            _send(descriptors[0], "".join(f"{text}\0" for text in answer).encode())
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    serve(socket.socket(fileno=0))
