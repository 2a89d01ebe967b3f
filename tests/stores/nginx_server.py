#!/usr/bin/env python3
"""nginx over a folder, for plain HTTP reads and for TLS.

Usage: nginx_server.py FOLDER SCRATCH [CERT KEY]     prints its port, serves FOLDER until killed
"""
import pathlib
import shutil
import subprocess
import sys

from child import announce, die_with_parent, start_on_free_port

CONFIG = """
daemon off; master_process off; pid {scratch}/pid; error_log stderr crit;
events {{}}
http {{
  access_log off; default_type application/octet-stream;
  client_body_temp_path {scratch}/1; proxy_temp_path {scratch}/2; fastcgi_temp_path {scratch}/3;
  uwsgi_temp_path {scratch}/4; scgi_temp_path {scratch}/5;
  server {{ listen 127.0.0.1:{port}{ssl}; root {folder}; {tls} }}
}}
"""


def main():
    folder, scratch = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tls = f"ssl_certificate {sys.argv[3]}; ssl_certificate_key {sys.argv[4]};" if len(sys.argv) > 3 else ""
    scratch.mkdir(parents=True, exist_ok=True)
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"

    def start(port):
        config = scratch / "nginx.conf"
        config.write_text(CONFIG.format(folder=folder, scratch=scratch, port=port, tls=tls, ssl=" ssl" if tls else ""))
        return subprocess.Popen([nginx, "-p", scratch, "-c", config, "-e", "stderr"], preexec_fn=die_with_parent)

    port, process = start_on_free_port(start)
    announce(port)
    sys.exit(process.wait())


if __name__ == "__main__":
    main()
