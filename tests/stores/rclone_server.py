#!/usr/bin/env python3
"""rclone serve s3: a second, independent S3 server. It ignores conditional puts.

Usage: rclone_server.py     prints its port, serves "bucket" from memory until killed
Key WRITER, secret writer. From memory, as its files are seen by readers while they are being written.
"""
import pathlib
import subprocess
import sys

import boto3

from child import announce, die_with_parent, start_on_free_port


def main():
    rclone = pathlib.Path(sys.executable).with_name("rclone")

    def start(port):
        return subprocess.Popen(
            [rclone, "serve", "s3", ":memory:", "--addr", f"127.0.0.1:{port}", "--auth-key", "WRITER,writer",
             "--config", "/dev/null", "--log-level", "CRITICAL"], preexec_fn=die_with_parent)

    port, process = start_on_free_port(start)
    boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1", aws_access_key_id="WRITER",
                 aws_secret_access_key="writer").create_bucket(Bucket="bucket")
    announce(port)
    sys.exit(process.wait())


if __name__ == "__main__":
    main()
