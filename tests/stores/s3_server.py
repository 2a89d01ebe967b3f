#!/usr/bin/env python3
"""An S3 server for tests: moto behind a gate that is as strict as the real ones where moto is not.

Usage: s3_server.py [--tls CERT KEY]     prints its port, serves until killed
The gate checks every signature with botocore (key, secret, token, region, clock, the body's SHA-256),
serialises writes, as moto checks conditions without a lock, and refuses what the stores must not
send: user metadata, aws-chunked bodies, ListObjects version 1, delimiters other than "/".

Keys (secret is the key in lower case):
  WRITER      may do everything            SKEWED      the server's clock is an hour ahead for it
  READER      may read and list            SESSION     needs the token "session-token"
  EXPIRED     needs "session-token", which has expired
Buckets: "bucket"; "elsewhere" in eu-west-1; "full", whose disk is; others by CreateBucket of WRITER.
"""
import argparse
import datetime
import hashlib
import io
import ssl
import threading
import urllib.parse

import botocore.auth
import botocore.awsrequest
import botocore.credentials
from botocore.compat import HTTPHeaders
import moto.core.models  # noqa: F401  (sets up what the backends need)
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

from child import announce

REGION = "us-east-1"
KEYS = ("WRITER", "READER", "SKEWED", "SESSION", "EXPIRED")
MAX_SKEW = datetime.timedelta(minutes=15)


class Refused(Exception):
    def __init__(self, status, code, message, region="", headers=()):
        super().__init__(message)
        region_xml = f"<Region>{region}</Region>" if region else ""
        self.status, self.headers = status, list(headers)
        self.body = (f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
                     f"<Message>{message}</Message>{region_xml}<RequestId>1</RequestId></Error>").encode()


def parse_authorization(value):
    scheme, _, rest = value.partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(",") if "=" in part)
    if scheme != "AWS4-HMAC-SHA256" or set(fields) != {"Credential", "SignedHeaders", "Signature"}:
        raise Refused(400, "AuthorizationHeaderMalformed", "not AWS4-HMAC-SHA256")
    key, day, region, service, end = fields["Credential"].split("/")
    if (service, end) != ("s3", "aws4_request"):
        raise Refused(400, "AuthorizationHeaderMalformed", "the scope is not s3/aws4_request")
    return key, day, region, fields["SignedHeaders"].split(";"), fields["Signature"]


def headers_of(environ):
    headers = {k[5:].replace("_", "-").lower(): v for k, v in environ.items() if k.startswith("HTTP_")}
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    return headers


def check_signature(method, uri, headers, body):
    """Raises Refused; returns the access key id."""
    if "authorization" not in headers:
        raise Refused(403, "AccessDenied", "Access Denied")
    key, day, region, signed, signature = parse_authorization(headers["authorization"])
    if key not in KEYS:
        raise Refused(403, "InvalidAccessKeyId", f"The AWS Access Key Id {key} does not exist in our records.")
    if region != REGION:
        raise Refused(400, "AuthorizationHeaderMalformed",
                      f"the region '{region}' is wrong; expecting '{REGION}'", REGION)
    stamp = headers.get("x-amz-date", "")
    sent_at = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ")
    now = datetime.datetime.utcnow() + datetime.timedelta(hours=1 if key == "SKEWED" else 0)
    if day != stamp[:8]:
        raise Refused(403, "SignatureDoesNotMatch", "the day of the scope is not that of the date")
    if abs(now - sent_at) > MAX_SKEW:
        date = now.strftime("%a, %d %b %Y %H:%M:%S GMT")
        raise Refused(403, "RequestTimeTooSkewed", "The difference between the request time and the "
                      "current time is too large.", headers=[("Date", date)])
    if absent := [name for name in signed if name not in headers]:
        raise Refused(403, "SignatureDoesNotMatch", f"signed, but not sent: {absent}")
    must = {"host"} | {name for name in headers if name.startswith("x-amz-")}
    if not must <= set(signed):
        raise Refused(403, "AccessDenied", f"There were headers present which were not signed: {must - set(signed)}")

    request = botocore.awsrequest.AWSRequest(method=method, url=f"http://{headers['host']}{uri}", data=body)
    for name in signed:
        if name != "host":
            request.headers[name] = headers[name]
    request.headers["host"] = headers["host"]
    request.context["timestamp"] = stamp
    auth = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(key, key.lower()), "s3", region)
    auth.headers_to_sign = lambda r: HTTPHeaders.from_pairs([(n, headers[n]) for n in signed])
    canonical = auth.canonical_request(request)
    if auth.signature(auth.string_to_sign(request, canonical), request) != signature:
        raise Refused(403, "SignatureDoesNotMatch",
                      f"The request signature we calculated does not match. AWSAccessKeyId {key}")
    if headers.get("x-amz-content-sha256") not in (hashlib.sha256(body).hexdigest(), "UNSIGNED-PAYLOAD"):
        raise Refused(400, "XAmzContentSHA256Mismatch", "The provided x-amz-content-sha256 does not match.")
    token = headers.get("x-amz-security-token", "")
    if key in ("SESSION", "EXPIRED") and token != "session-token" or key in ("WRITER", "READER") and token:
        raise Refused(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
    if key == "EXPIRED":
        raise Refused(400, "ExpiredToken", "The provided token has expired.")
    return key


def check_manners(method, uri, headers):
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(uri).query, keep_blank_values=True)
    if any(name.startswith("x-amz-meta-") for name in headers):
        raise Refused(501, "NotImplemented", "user metadata")
    if "aws-chunked" in headers.get("content-encoding", "") or "transfer-encoding" in headers:
        raise Refused(501, "NotImplemented", "chunked bodies")
    if query.get("delimiter", ["/"]) != ["/"]:
        raise Refused(501, "NotImplemented", "a delimiter other than /")
    path = urllib.parse.urlsplit(uri).path
    if method == "GET" and path.count("/") == 1 + path.endswith("/") and path.strip("/") and \
            "location" not in query and query.get("list-type") != ["2"]:
        raise Refused(501, "NotImplemented", "ListObjects version 1")


def check_bucket(method, uri, key):
    bucket = urllib.parse.urlsplit(uri).path.strip("/").split("/")[0]
    if key == "READER" and method not in ("GET", "HEAD"):
        raise Refused(403, "AccessDenied", "Access Denied")
    if bucket == "elsewhere":
        raise Refused(301, "PermanentRedirect", "The bucket you are attempting to access must be addressed "
                      "using the specified endpoint.", headers=[("x-amz-bucket-region", "eu-west-1")])
    if bucket == "full" and method in ("PUT", "POST"):
        raise Refused(507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold.")


class Gate:
    def __init__(self, app):
        self.app, self.lock = app, threading.Lock()

    def __call__(self, environ, start_response):
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        environ["wsgi.input"] = io.BytesIO(body)
        method, uri = environ["REQUEST_METHOD"], environ["REQUEST_URI"]
        try:
            headers = headers_of(environ)
            check_manners(method, uri, headers)
            check_bucket(method, uri, check_signature(method, uri, headers, body))
        except Refused as refused:
            start_response(f"{refused.status} Refused", [("Content-Type", "application/xml"),
                           ("Content-Length", str(len(refused.body))), *refused.headers])
            return [b"" if method == "HEAD" else refused.body]
        if method in ("GET", "HEAD"):
            return self.app(environ, start_response)
        with self.lock:
            return list(self.app(environ, start_response))


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open, as with real servers

    def log_request(self, *args):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"))
    args = parser.parse_args()
    for bucket in ("bucket", "full"):
        s3_backends["123456789012"]["aws"].create_bucket(bucket, REGION)
    context = None
    if args.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*args.tls)
    app = DomainDispatcherApplication(lambda service: create_backend_app("s3"))
    server = make_server("127.0.0.1", 0, Gate(app), threaded=True, request_handler=Handler, ssl_context=context)
    announce(server.server_port)
    server.serve_forever()


if __name__ == "__main__":
    main()
