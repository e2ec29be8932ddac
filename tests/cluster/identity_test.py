#!/usr/bin/env python3
"""Which AWS identity a program of ours uses, beside botocore's choice: both are started with the same environment and
the same files, before one server that plays S3, STS, the metadata service and a container's endpoint, and checks
signatures by botocore. Where ours refuses, the error names the setting. Finds the programs in $PROTEUS_BIN. Skipped
where python3 has no botocore that knows AWS_ENDPOINT_URL (1.31)."""
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import unittest
import urllib.parse

sys.dont_write_bytecode = True
from background import PATIENCE_S, PROGRAMS, Background

try:
    import botocore
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials
    KNOWS = tuple(map(int, botocore.__version__.split(".")[:2])) >= (1, 31)
except ImportError:
    KNOWS = False

REGION = "eu-west-1"
LIVES_UNTIL = "2090-01-01T00:00:00Z"
SEEN = ("import botocore.session as s; c = s.get_session().get_credentials();"
        "print(c.get_frozen_credentials().access_key if c else 'none')")
WEB = "[profile web]\nrole_arn = arn:aws:iam::1:role/web\nweb_identity_token_file = TOKEN\n"
BASE = "[profile base]\naws_access_key_id = BASE\naws_secret_access_key = secret-of-BASE\n"
ROLE = "role_arn = arn:aws:iam::1:role/"

# What is set, the config file, and the key that both use.
USED = [
    ({"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "secret-of-ENV"}, "", "ENV"),
    ({"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "secret-of-ENV", "AWS_PROFILE": "base"}, BASE, "ENV"),
    ({"AWS_PROFILE": "base"}, BASE, "BASE"),
    ({"AWS_DEFAULT_PROFILE": "base"}, BASE, "BASE"),
    ({}, "[default]\nregion = us-east-1\n", "INSTANCE"),
    ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "SERVER/container"}, "", "CONTAINER"),
    ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "SERVER/container", "AWS_PROFILE": "base"}, BASE, "BASE"),
    ({"AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN", "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod",
      "AWS_ROLE_SESSION_NAME": "me"}, "", "pod-BY-token"),
    ({"AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN", "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod", "AWS_PROFILE": "base"}, BASE,
     "pod-BY-token"),
    ({"AWS_PROFILE": "web"}, WEB, "web-BY-token"),
    ({"AWS_PROFILE": "a"}, f"{BASE}[profile a]\n{ROLE}a\nsource_profile = base\n", "a-BY-BASE"),
    ({"AWS_PROFILE": "a", "AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN", "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod"},
     f"{BASE}[profile a]\n{ROLE}a\nsource_profile = base\nexternal_id = x:1\nduration_seconds = 900\n", "a-BY-BASE"),
    ({"AWS_PROFILE": "b"},
     f"{BASE}[profile a]\n{ROLE}a\nsource_profile = base\n[profile b]\n{ROLE}b\nsource_profile = a\n",
     "b-BY-a-BY-BASE"),
    ({"AWS_PROFILE": "a"}, f"{WEB}[profile a]\n{ROLE}a\nsource_profile = web\n", "a-BY-web-BY-token"),
    ({"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\ncredential_source = Ec2InstanceMetadata\n", "a-BY-INSTANCE"),
    ({"AWS_PROFILE": "a", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "SERVER/container"},
     f"[profile a]\n{ROLE}a\ncredential_source = EcsContainer\n", "a-BY-CONTAINER"),
    ({"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = a\naws_access_key_id = OWN\n"
     "aws_secret_access_key = secret-of-OWN\n", "a-BY-OWN"),
]

# ... and what ours refuses, by name.
REFUSED = [
    ({"AWS_ACCESS_KEY_ID": "ENV"}, "", "AWS_SECRET_ACCESS_KEY"),
    ({"AWS_SESSION_TOKEN": "T"}, "", "AWS_ACCESS_KEY_ID"),
    ({"AWS_PROFILE": "nobody"}, BASE, "AWS_PROFILE"),
    ({"AWS_ROLE_ARN": "arn:aws:iam::1:role/pod"}, "", "AWS_ROLE_ARN"),
    ({"AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN"}, "", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    ({"AWS_SHARED_CREDENTIALS_FILE": "/nowhere/at/all"}, "", "AWS_SHARED_CREDENTIALS_FILE"),
    ({"AWS_USE_FIPS_ENDPOINT": "maybe"}, "", "AWS_USE_FIPS_ENDPOINT"),
    ({"AWS_USE_FIPS_ENDPOINT": "true"}, "", "AWS_USE_FIPS_ENDPOINT"),  # beside an endpoint
    ({}, "[default]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n", "sso_session"),
    ({}, "[default]\ncredential_process = echo keys\n", "credential_process"),
    ({}, f"[default]\n{ROLE}a\n", "source_profile"),
    ({"AWS_PROFILE": "a"}, f"{BASE}[profile a]\n{ROLE}a\nsource_profile = base\nmfa_serial = m\n", "mfa_serial"),
    ({"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = b\n", "'b'"),
]


def is_signed(request, body):
    """The key of the request, if botocore makes the same signature with its secret; else ""."""
    said = request.headers.get("authorization", "")
    found = re.search(r"Credential=([^/]*)/\d+/([^/]*)/(\w+)/aws4_request, SignedHeaders=([^,]*), Signature=(\w+)",
                      said)
    if not found:
        return ""
    key, region, service, names, signature = found.groups()
    made = botocore.auth.S3SigV4Auth if service == "s3" else botocore.auth.SigV4Auth
    signer = made(botocore.credentials.Credentials(key, f"secret-of-{key}"), service, region)
    copy = botocore.awsrequest.AWSRequest(
        method=request.command, url=f"http://{request.headers['host']}{request.path}", data=body,
        headers={name: request.headers[name] for name in names.split(";")})
    copy.context["timestamp"] = request.headers["x-amz-date"]
    token = request.headers.get("x-amz-security-token", "")
    known = key in ("ENV", "BASE", "OWN") or token == f"token-of-{key}"
    same = signer.signature(signer.string_to_sign(copy, signer.canonical_request(copy)), copy) == signature
    return key if same and known else ""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    def keys(self, key):
        self.reply(200, json.dumps({"Code": "Success", "AccessKeyId": key, "SecretAccessKey": f"secret-of-{key}",
                                    "Token": f"token-of-{key}", "Expiration": LIVES_UNTIL}))

    def sts(self, body):
        fields = dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True))
        action = fields["Action"]
        caller = is_signed(self, body) if action == "AssumeRole" else \
            "token" if fields["WebIdentityToken"] == "an.identity+/=" else ""
        if not caller or fields["Version"] != "2011-06-15":
            self.reply(403, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error>"
                            "</ErrorResponse>")
            return
        fields.pop("WebIdentityToken", None)
        fields.pop("RoleSessionName")
        self.server.asked.append(fields)
        key = f"{fields['RoleArn'].rpartition('/')[2]}-BY-{caller}"
        self.reply(200, f"<{action}Response xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><{action}Result>"
                        f"<Credentials>"
                        f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>secret-of-{key}</SecretAccessKey>"
                        f"<SessionToken>token-of-{key}</SessionToken><Expiration>{LIVES_UNTIL}</Expiration>"
                        f"</Credentials>"
                        f"</{action}Result></{action}Response>")

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        roles = "/latest/meta-data/iam/security-credentials/"
        if self.path == "/latest/api/token":
            self.reply(200, "metadata-token")
        elif self.path in (roles, roles + "a-role"):
            self.keys("INSTANCE") if self.path.endswith("a-role") else self.reply(200, "a-role")
        elif self.path == "/container":
            self.keys("CONTAINER")
        elif self.command == "POST" and self.path == "/":
            self.sts(body)
        else:  # S3: there is nothing, but who asks is seen
            self.server.seen.append(is_signed(self, body))
            self.reply(404, "<Error><Code>NoSuchKey</Code></Error>")

    do_GET = do_PUT = do_POST = do_HEAD = answer


@unittest.skipUnless(KNOWS, "python3 has no botocore of 1.31 or newer")
class Identity(Background):
    @classmethod
    def begin(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.url = f"http://127.0.0.1:{cls.server.server_port}"
        (cls.folder / "token").write_text("an.identity+/=")  # botocore sends a line end, too
        (cls.folder / "credentials").touch()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()
        super().tearDownClass()

    def run_with(self, variables, config, *command):
        """Runs a command with these variables of AWS alone."""
        def filled(text):
            return text.replace("SERVER", self.url).replace("TOKEN", str(self.folder / "token"))
        (self.folder / "config").write_text(filled(config))
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        usual = {"AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "AWS_ENDPOINT_URL": self.url,
                 "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url, "AWS_CONFIG_FILE": str(self.folder / "config"),
                 "AWS_SHARED_CREDENTIALS_FILE": str(self.folder / "credentials")}
        given = {name: filled(value) for name, value in variables.items()}
        self.server.seen, self.server.asked = [], []
        return subprocess.run(command, env={**own, **usual, **given}, capture_output=True, text=True,
                              timeout=PATIENCE_S)

    def run_ours(self, variables, config):
        return self.run_with(variables, config, PROGRAMS / "proteus", "run", "--progress", "plain", "--",
                             PROGRAMS / "mf", "--data", "s3://bucket/key")

    def test_the_same_identity_as_botocore(self):
        for variables, config, key in USED:
            with self.subTest(variables=variables, config=config):
                theirs = self.run_with(variables, config, sys.executable, "-c", SEEN)
                self.assertEqual(theirs.stdout.strip(), key, theirs.stderr)
                asked = self.server.asked
                ours = self.run_ours(variables, config)
                self.assertEqual(ours.returncode, 2, ours.stderr)
                self.assertEqual(set(self.server.seen), {key}, ours.stderr)
                for fields in asked:  # botocore asks for an hour where nothing is said, as STS itself does
                    fields.setdefault("DurationSeconds", "3600")
                for fields in self.server.asked:
                    fields.setdefault("DurationSeconds", "3600")
                self.assertEqual(self.server.asked, asked)

    def test_what_is_refused_is_named(self):
        for variables, config, named in REFUSED:
            with self.subTest(variables=variables, config=config):
                ours = self.run_ours(variables, config)
                self.assertEqual(ours.returncode, 2, ours.stderr)
                self.assertIn(named, ours.stderr + ours.stdout)
                self.assertEqual(self.server.seen, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
