"""What the servers of these tests share: a free port, and ending with whoever started them."""
import ctypes
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG = 1


def die_with_parent():
    """For subprocess's preexec_fn: the child is killed when this process ends, however it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    """A port that was free a moment ago; who uses it must be ready to try another."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until_connectable(port, process, seconds=20):
    """False if the process ended before, or took too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as s:
            s.settimeout(1)
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.02)
    return False


def announce(port):
    """Tells the parent, which reads one line, that the server is up."""
    print(port, flush=True)


def start_on_free_port(make_process):
    """make_process(port) -> Popen. Tries ports until one is not taken meanwhile; (port, process)."""
    for _ in range(10):
        port = free_port()
        process = make_process(port)
        if wait_until_connectable(port, process):
            return port, process
        process.kill()
        process.wait()
    sys.exit("no server came up on any of 10 ports")
