"""An S3-compatible server on a free loopback port, one request at a time: it prints its address and serves."""

from __future__ import annotations

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
    print(f"http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()
