#!/usr/bin/env python3
"""A stub of the Hugging Face Hub, which can't exist on a test machine: as strict as its documents.

Usage: hub_stub.py S3_PORT     prints its port, serves until killed
Reads: GET /buckets/ns/name/resolve/PATH, PATH one segment (slashes as %2F, as huggingface_hub sends it), with
"Authorization: Bearer hf_token", or 401. Answered by a 302 to a CDN, here another port, with a signed address
that takes GET alone and refuses requests with credentials. What is in the bucket comes from the S3 server
at S3_PORT (bucket "bucket"), which stands for the gateway's storage.
Writes: /ns/name/... is passed to the S3 server as the gateway https://s3.hf.co/ns does; the request is signed
for the path that the client saw, so the stub checks it against that, and signs its own.
"""
import http.server
import json
import secrets
import sys
import threading
import urllib.parse

import boto3
import botocore
from botocore.config import Config

from child import announce
from s3_server import Refused, check_manners, check_signature

TOKEN = "hf_token"
NAMESPACE, NAME = "ns", "name"


class Hub:
    s3, cdn_port, addresses = None, 0, {}


class Base(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if "content-length" not in (name.lower() for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fetch(self, key, **extra):
        try:
            got = Hub.s3.get_object(Bucket="bucket", Key=key, **extra)
        except botocore.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return self.reply(status, b"", [("Content-Range", "bytes */0")] if status == 416 else [])
        headers = [(n, v) for n, v in got["ResponseMetadata"]["HTTPHeaders"].items()
                   if n in ("etag", "last-modified", "content-range")]
        return self.reply(got["ResponseMetadata"]["HTTPStatusCode"], got["Body"].read(), headers)


class Resolve(Base):
    def do_GET(self):
        prefix = f"/buckets/{NAMESPACE}/{NAME}/resolve/"
        if not self.path.startswith(prefix) or "/" in self.path[len(prefix):]:
            return self.gateway()
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self.reply(401, b'{"error":"Invalid username or password."}')
        key = urllib.parse.unquote(self.path[len(prefix):])
        try:
            Hub.s3.head_object(Bucket="bucket", Key=key)
        except botocore.exceptions.ClientError:
            return self.reply(404, b"Entry not found", [("X-Error-Code", "EntryNotFound")])
        signature = secrets.token_hex(8)
        Hub.addresses[signature] = key
        self.reply(302, b"", [("Location", f"http://127.0.0.1:{Hub.cdn_port}/x?X-Amz-Signature={signature}")])

    def gateway(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {n.lower(): v for n, v in self.headers.items()}
        try:
            path, _, query = self.path.partition("?")
            parts = path.split("/", 3)
            if parts[1] != NAMESPACE:
                raise Refused(404, "NoSuchBucket", "no such namespace")
            check_signature(self.command, self.path, headers, body)
            check_manners(self.command, "/" + "/".join(parts[2:]) + ("?" + query if query else ""), headers)
            if parts[2] != NAME:
                raise Refused(404, "NoSuchBucket", "no such bucket")
            self.answer_gateway(urllib.parse.unquote(parts[3]), dict(urllib.parse.parse_qsl(query)), headers, body)
        except Refused as refused:
            self.reply(refused.status, refused.body, refused.headers)

    def answer_gateway(self, key, query, headers, body):
        conditions = {"IfMatch": headers.get("if-match"), "IfNoneMatch": headers.get("if-none-match")}
        conditions = {n: v for n, v in conditions.items() if v}
        try:
            if self.command == "PUT":
                put = Hub.s3.put_object(Bucket="bucket", Key=key, Body=body, **conditions)
                return self.reply(200, b"", [("ETag", put["ETag"])])
            if self.command == "DELETE":
                Hub.s3.delete_object(Bucket="bucket", Key=key)
                return self.reply(204)
            if self.command == "HEAD":
                head = Hub.s3.head_object(Bucket="bucket", Key=key)["ResponseMetadata"]["HTTPHeaders"]
                return self.reply(200, b"", [(n, head[n]) for n in ("etag", "last-modified", "content-length")])
        except botocore.exceptions.ClientError as error:
            raise Refused(error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"],
                          "refused") from error
        if query.get("list-type") == "2":
            return self.list(query)
        self.fetch(key, **({"Range": headers["range"]} if "range" in headers else {}), **conditions)

    def list(self, query):
        extra = {"StartAfter": query["start-after"]} if "start-after" in query else {}
        listed = Hub.s3.list_objects_v2(Bucket="bucket", Prefix=query.get("prefix", ""),
                                        Delimiter=query.get("delimiter", ""), MaxKeys=int(query["max-keys"]), **extra)
        contents = "".join(
            f"<Contents><Key>{o['Key']}</Key><Size>{o['Size']}</Size><ETag>{o['ETag']}</ETag>"
            f"<LastModified>{o['LastModified']:%Y-%m-%dT%H:%M:%S.000Z}</LastModified></Contents>"
            for o in listed.get("Contents", []))
        prefixes = "".join(f"<CommonPrefixes><Prefix>{p['Prefix']}</Prefix></CommonPrefixes>"
                           for p in listed.get("CommonPrefixes", []))
        truncated = json.dumps(listed["IsTruncated"])
        self.reply(200, f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{contents}{prefixes}"
                        "</ListBucketResult>".encode())

    do_PUT = do_HEAD = do_POST = do_DELETE = gateway


class Cdn(Base):
    def do_GET(self):
        signature = self.path.rpartition("=")[2]
        if "authorization" in self.headers or signature not in Hub.addresses:
            return self.reply(400, b"Only one auth mechanism allowed")
        self.fetch(Hub.addresses[signature], **({"Range": self.headers["range"]} if "range" in self.headers else {}),
                   **({"IfMatch": self.headers["if-match"]} if "if-match" in self.headers else {}))

    def do_HEAD(self):
        self.reply(403)


def main():
    Hub.s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{sys.argv[1]}", region_name="us-east-1",
                          aws_access_key_id="WRITER", aws_secret_access_key="writer",
                          config=Config(request_checksum_calculation="when_required",
                                        response_checksum_validation="when_required"))
    cdn = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cdn)
    Hub.cdn_port = cdn.server_port
    threading.Thread(target=cdn.serve_forever, daemon=True).start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Resolve)
    announce(server.server_port)
    server.serve_forever()


if __name__ == "__main__":
    main()
