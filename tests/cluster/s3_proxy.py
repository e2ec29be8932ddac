"""A relay before an S3-compatible server that checks signatures by botocore, and does to every few requests what
networks and servers do: 500, 503 SlowDown, a cut, another range than was asked for, slowness."""
import http.client
import http.server
import re
import threading
import time
import urllib.request

import botocore.auth
import botocore.awsrequest
import botocore.credentials

SLOW_S = 0.05
FAULTS = ("500", "503", "cut", "range", "slow", "lost")


def is_signed(method, path, headers, key, secret):
    """Whether botocore makes the same signature."""
    given = headers.get("authorization", "")
    found = re.search(r"Credential=([^/]*)/\d+/([^/]*)/s3/aws4_request, SignedHeaders=([^,]*), Signature=(\w+)", given)
    if not found or found.group(1) != key:
        return False
    signed = {name: headers[name] for name in found.group(3).split(";")}
    request = botocore.awsrequest.AWSRequest(method, "http://" + headers["host"] + path, headers=signed)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(key, secret), "s3", found.group(2))
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return auth.signature(text, request) == found.group(4)


def signed_put(url, body, key, secret):
    request = botocore.awsrequest.AWSRequest("PUT", url, data=body)
    botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(key, secret), "s3", "us-east-1").add_auth(request)
    return urllib.request.Request(url, body, dict(request.headers.items()), method="PUT")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def refuse(self, status, code):
        body = f"<Error><Code>{code}</Code><Message>from the relay</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def relay(self):
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not is_signed(self.command, self.path, headers, proxy.key, proxy.secret):
            self.refuse(403, "SignatureDoesNotMatch")
            return
        fault = proxy.fault(self.command)
        if fault in ("500", "503"):
            self.refuse(int(fault), "InternalError" if fault == "500" else "SlowDown")
            return
        upstream = http.client.HTTPConnection("127.0.0.1", proxy.upstream, timeout=60)
        upstream.request(self.command, self.path, body, headers)
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        if fault == "slow":
            time.sleep(SLOW_S)
        if fault == "lost":
            self.close_connection = True
            return
        self.answer(answer, data, fault)

    def answer(self, answer, data, fault):
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() == "content-range" and fault == "range":
                value = re.sub(r"bytes (\d+)-", lambda match: f"bytes {int(match.group(1)) + 1}-", value)
            if name.lower() not in ("connection", "content-length", "transfer-encoding", "date", "server"):
                self.send_header(name, value)
        length = dict((name.lower(), value) for name, value in answer.getheaders()).get("content-length", "0")
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        if fault == "cut" and data:
            self.wfile.write(data[:len(data) // 2])
            self.wfile.flush()
            self.close_connection = True
        else:
            self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # processes that are killed


class Proxy:
    """Every `every`-th request meets a fault, each kind in turn; 0: none does."""

    def __init__(self, upstream, key, secret, every=0):
        self.upstream, self.key, self.secret, self.every = upstream, key, secret, every
        self.lock = threading.Lock()
        self.requests = 0
        self.made = dict.fromkeys(FAULTS, 0)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.proxy = self
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def fault(self, method):
        with self.lock:
            self.requests += 1
            if self.every == 0 or self.requests % self.every != 0:
                return None
            fault = FAULTS[self.requests // self.every % len(FAULTS)]
            self.made[fault] += 1
            return fault

    def close(self):
        self.server.shutdown()
        self.server.server_close()
