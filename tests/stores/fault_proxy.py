#!/usr/bin/env python3
"""A proxy in front of an S3 server that does what networks and overloaded servers do.

Usage: fault_proxy.py UPSTREAM_PORT     prints its port, serves until killed
POST /_control with JSON sets what happens from then on, and answers with what happened since last time:
  rate, seed   faults drawn at random for this share of the requests (0 at first)
  kinds        out of these (all at first)
  next         a list of kinds for the coming requests, "" for none; afterwards as drawn
Answer: {"requests": n, "faults": {kind: n}, "leaks": n}, leaks being credentials that came to the
other port, to which redirects lead.

Kinds, before the server sees the request: error500, slow_down, reset, stall; with a garbled body:
garbled_put; after it did: reset_after, lost_answer (500 though it was done), short_body, garbled_get,
duplicate (done twice, the second answer passed on), late, redirect (302 to another port).
"""
import collections
import email.utils
import http.client
import http.server
import json
import random
import socket
import struct
import sys
import threading
import time

from child import announce

KINDS = ("error500", "slow_down", "reset", "stall", "garbled_put", "reset_after", "lost_answer", "short_body",
         "garbled_get", "duplicate", "late", "redirect")
STALL_SECONDS = 4.5  # the tests' clients give up after two
XML = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>injected</Message></Error>'


class Faults:
    def __init__(self):
        self.lock = threading.Lock()
        self.random, self.rate, self.kinds, self.next = random.Random(0), 0.0, KINDS, []
        self.clear()
        self.stash, self.stashed = {}, 0

    def clear(self):
        self.requests, self.leaks, self.counts = 0, 0, collections.Counter()

    def control(self, settings):
        with self.lock:
            report = {"requests": self.requests, "faults": dict(self.counts), "leaks": self.leaks}
            self.clear()
            self.rate, self.next = settings.get("rate", 0.0), list(settings.get("next", []))
            self.kinds = settings.get("kinds", KINDS)
            self.random = random.Random(settings.get("seed", 0))
            assert set(self.kinds) <= set(KINDS) and set(self.next) <= {"", *KINDS}
            return report

    def draw(self, method):
        with self.lock:
            self.requests += 1
            kind = ""
            if self.next:
                kind = self.next.pop(0)
            elif self.random.random() < self.rate:
                kind = self.random.choice(self.kinds)
            gets = ("short_body", "garbled_get", "redirect")
            if kind in gets and method != "GET" or kind == "garbled_put" and method != "PUT":
                kind = "error500"
            if kind:
                self.counts[kind] += 1
            return kind

    def put_aside(self, answer):
        with self.lock:
            self.stashed += 1
            self.stash[f"/stash/{self.stashed}"] = answer
            return f"/stash/{self.stashed}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults, upstream, other_port = None, 0, 0

    def log_message(self, *args):
        pass

    def answer(self, status, headers, body, cut=0):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date"):
                self.send_header(name, value)
        self.send_header("Date", email.utils.formatdate(usegmt=True))
        length = dict((n.lower(), v) for n, v in headers).get("content-length", len(body))
        self.send_header("Content-Length", length if self.command == "HEAD" else len(body))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:len(body) - cut])
        if cut:
            self.hang_up()

    def hang_up(self):
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()  # with a reset
        self.close_connection = True

    def finish(self):
        try:
            super().finish()
        except (OSError, ValueError):
            pass

    def forward(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "expect"):
                connection.putheader(name, value)
        connection.endheaders(body or None)
        response = connection.getresponse()
        answer = response.status, response.getheaders(), response.read()
        connection.close()
        return answer

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/_control":
            return self.answer(200, [], json.dumps(self.faults.control(json.loads(body))).encode())
        kind = self.faults.draw(self.command)
        if kind == "error500":
            return self.answer(500, [], XML.format("InternalError").encode())
        if kind == "slow_down":
            return self.answer(503, [("Retry-After", "0")], XML.format("SlowDown").encode())
        if kind == "reset":
            return self.hang_up()
        if kind == "stall":
            time.sleep(STALL_SECONDS)
            return self.hang_up()
        if kind == "garbled_put" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        if kind == "duplicate":
            self.forward(body)
        status, headers, content = self.forward(body)
        if kind == "reset_after":
            return self.hang_up()
        if kind == "lost_answer":
            return self.answer(500, [], XML.format("InternalError").encode())
        if kind == "late":
            time.sleep(0.2)
        if kind == "redirect" and status in (200, 206):
            where = self.faults.put_aside((status, headers, content))
            return self.answer(302, [("Location", f"http://127.0.0.1:{self.other_port}{where}")], b"")
        if kind == "garbled_get" and content:
            content = content[:-1] + bytes([content[-1] ^ 1])
        self.answer(status, headers, content, cut=len(content) // 2 + 1 if kind == "short_body" and content else 0)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any


class OtherHandler(Handler):
    """The port that must not see credentials."""

    def handle_any(self):
        if "authorization" in self.headers or any(n.lower().startswith("x-amz-") for n in self.headers):
            self.faults.leaks += 1
        self.answer(*self.faults.stash.pop(self.path, (404, [], b"")))

    do_GET = do_HEAD = handle_any


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients hang up on what they don't like


def main():
    Handler.faults, Handler.upstream = Faults(), int(sys.argv[1])
    other = Server(("127.0.0.1", 0), OtherHandler)
    Handler.other_port = other.server_port
    threading.Thread(target=other.serve_forever, daemon=True).start()
    server = Server(("127.0.0.1", 0), Handler)
    announce(server.server_port)
    server.serve_forever()


if __name__ == "__main__":
    main()
