#!/usr/bin/env python3
"""bidbrain's requests to EC2 against botocore, the library of AWS's command line: each request is one that botocore's
model of EC2 knows, named and typed as botocore would write it, with the signature that botocore makes. A relay before
spotmarket records what check-config, prices, a dry run and a job by each launch.call send. Finds the programs in
$PROTEUS_BIN. Skipped where python3 has no botocore (Debian's python3-botocore)."""
import base64
import collections
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import unittest
import urllib.parse

sys.dont_write_bytecode = True
from background import PATIENCE_S, PROGRAMS, Background

try:
    import botocore.auth
    import botocore.awsrequest
    import botocore.config
    import botocore.credentials
    import botocore.exceptions
    import botocore.serialize
    import botocore.session
except ImportError:
    botocore = None

KEY, SECRET, REGION = "AKIDTEST", "secret", "us-east-1"
CALLS = ("run-instances", "request-spot-instances", "create-fleet")
EXPECTED = {"CreateFleet", "CreateTags", "DescribeImages", "DescribeInstances", "DescribeLaunchTemplates",
            "DescribeSecurityGroups", "DescribeSpotInstanceRequests", "DescribeSpotPriceHistory", "DescribeSubnets",
            "RequestSpotInstances", "RunInstances", "TerminateInstances"}

Request = collections.namedtuple("Request", "method path headers body")  # headers: names in small letters


class Refused(Exception):
    """A request that EC2 would not take."""


class Relay:
    """Passes bytes on to spotmarket and back, and keeps those that went there, by connection."""

    def __init__(self, target):
        self.target = target
        self.sent = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:  # closed
                return
            host, port = self.target.split(":")
            server = socket.create_connection((host, int(port)))
            self.sent.append(bytearray())
            threading.Thread(target=self.carry, args=(client, server, self.sent[-1]), daemon=True).start()
            threading.Thread(target=self.carry, args=(server, client, bytearray()), daemon=True).start()

    @staticmethod
    def carry(source, sink, record):
        with source:
            try:
                while data := source.recv(65536):
                    record += data
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:  # the other side is gone
                pass

    def requests(self):
        return [request for sent in self.sent for request in split_requests(bytes(sent))]


def split_requests(sent):
    """The requests of one connection, one behind the other."""
    while sent:
        head, end, rest = sent.partition(b"\r\n\r\n")
        assert end, f"a request without an end: {sent!r}"
        first, *lines = head.decode("ascii").split("\r\n")
        pairs = [(name.lower(), value.strip()) for name, value in (line.split(":", 1) for line in lines)]
        headers = dict(pairs)
        assert len(headers) == len(pairs), f"a header twice: {head!r}"
        size = int(headers.get("content-length", 0))
        assert "transfer-encoding" not in headers and len(rest) >= size, f"a body that is not whole: {sent!r}"
        method, path, _ = first.split(" ")
        yield Request(method, path, headers, rest[:size])
        sent = rest[size:]


def fields_of(request):
    pairs = urllib.parse.parse_qsl(request.body.decode("ascii"), keep_blank_values=True, strict_parsing=True)
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Refused("a parameter twice")
    return fields


def scalar_of(shape, name, text):
    forms = {"integer": r"-?[0-9]+", "long": r"-?[0-9]+", "boolean": "true|false",
             "double": r"-?[0-9]+(\.[0-9]+)?", "float": r"-?[0-9]+(\.[0-9]+)?",
             "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "string": r"(?s:.*)"}
    if shape.type_name not in forms or not re.fullmatch(forms[shape.type_name], text):
        raise Refused(f"{name}: {text!r} does not do as {shape.type_name}")
    if getattr(shape, "enum", None) and text not in shape.enum:
        raise Refused(f"{name}: {text!r} is none of {', '.join(shape.enum[:8])}")
    make = {"integer": int, "long": int, "boolean": "true".__eq__, "double": float, "float": float}
    return make.get(shape.type_name, str)(text)


def value_of(shape, name, fields):
    """What the parameters called `name`, or that and a dot and more, say by the model; `fields`: the rest of names."""
    if shape.type_name not in ("structure", "list"):
        if set(fields) != {""}:
            raise Refused(f"{name}: {shape.type_name}s have no parts, such as {', '.join(fields)}")
        return scalar_of(shape, name, fields[""])
    parts = collections.defaultdict(dict)
    for rest, text in fields.items():
        part, _, behind = rest.partition(".")
        parts[part][behind] = text
    if shape.type_name == "list":
        if set(parts) != {str(i + 1) for i in range(len(parts))}:
            raise Refused(f"{name}: a list is numbered from 1 on: {', '.join(parts)}")
        return [value_of(shape.member, f"{name}.{i + 1}", parts[str(i + 1)]) for i in range(len(parts))]
    members = {}
    for member, of in shape.members.items():
        location = of.serialization.get("name", member)
        members[of.serialization.get("queryName", location[0].upper() + location[1:])] = member
    for part in parts:
        if part not in members:
            raise Refused(f"{name or 'parameters'}: {part!r} is unknown")
    return {members[part]: value_of(shape.members[members[part]], f"{name}.{part}".lstrip("."), behind)
            for part, behind in parts.items()}


def check_model(model, request):
    """The action of a request that the model knows, and that botocore would write with the same parameters."""
    fields = fields_of(request)
    action, version = fields.pop("Action", ""), fields.pop("Version", "")
    if request.method != "POST" or request.path != "/":
        raise Refused(f"{request.method} {request.path} instead of POST /")
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise Refused("no form's content type")
    if version != model.api_version:
        raise Refused(f"version {version!r}, the model's is {model.api_version}")
    if action not in model.operation_names:
        raise Refused(f"the action {action!r} is unknown")
    operation = model.operation_model(action)
    values = value_of(operation.input_shape, "", fields)
    try:
        body = botocore.serialize.create_serializer("ec2").serialize_to_request(values, operation)["body"]
    except botocore.exceptions.ParamValidationError as error:
        raise Refused(str(error)) from error
    written = {name: str(value) for name, value in body.items() if name not in ("Action", "Version")}
    if written != fields:
        raise Refused(f"botocore writes {written}, this is {fields}")
    return action


def check_signature(request, secret=SECRET):
    """botocore's signature of the request, at its time, by the headers that it says are signed, is its own."""
    said = request.headers.get("authorization", "")
    found = re.search(r"SignedHeaders=([a-z0-9;-]+)", said)
    signed = found.group(1).split(";") if found else []
    lacking = [name for name in ("host", "x-amz-date", *signed) if name not in signed or name not in request.headers]
    if lacking:
        raise Refused(f"not signed or not there: {', '.join(lacking)}")
    digest = hashlib.sha256(request.body).hexdigest()
    if request.headers.get("x-amz-content-sha256", digest) != digest:
        raise Refused("X-Amz-Content-SHA256 is not the body's")
    signer = botocore.auth.SigV4Auth(botocore.credentials.Credentials(KEY, secret), "ec2", REGION)
    copy = botocore.awsrequest.AWSRequest(
        method=request.method, url=f"http://{request.headers['host']}{request.path}", data=request.body,
        headers={name: request.headers[name] for name in signed})
    copy.context["timestamp"] = request.headers["x-amz-date"]
    signature = signer.signature(signer.string_to_sign(copy, signer.canonical_request(copy)), copy)
    own = f"AWS4-HMAC-SHA256 Credential={signer.scope(copy)}, SignedHeaders={';'.join(signed)}, Signature={signature}"
    if said != own:
        raise Refused(f"the signature differs: {said}, botocore's: {own}")


@unittest.skipUnless(botocore, "python3 has no botocore (Debian: python3-botocore)")
class Botocore(Background):
    @classmethod
    def bidbrain(cls, *arguments):
        return subprocess.Popen([PROGRAMS / "bidbrain", *arguments], cwd=cls.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    @classmethod
    def end(cls, process):
        cls.processes.append(process)
        said = process.communicate(timeout=PATIENCE_S)[0]
        assert process.returncode == 0, f"{process.args}: {said}"
        return said

    @classmethod
    def begin(cls):
        """All that bidbrain asks, as `requests`."""
        (cls.folder / "prices").mkdir()
        for name, price in (("m3.large-us-east-1a", 0.019), ("c3.xlarge-us-east-1a", 0.05)):
            lines = [f"2016-{day}T00:00:00Z,{price}" for day in ("02-25", "04-01")]
            (cls.folder / "prices" / f"{name}.csv").write_text("\n".join(["timestamp_utc,price_usd", *lines, ""]))
        ratings = [f"{user} {item} {1 + user * item % 5}" for user in range(60) for item in range(40)]
        (cls.folder / "ratings").write_text("\n".join(ratings) + "\n")
        keys = cls.folder / "credentials"
        keys.touch(0o600)
        keys.write_text(f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
        market = cls.start("spotmarket at ", "market", "spotmarket", "--prices", "prices", "--credentials",
                           "credentials", "--folder", "cloud", "--start", "2016-03-01T00:00:00Z", "--speed", "240",
                           "--model", "ec2")
        relay = Relay(market.removeprefix("http://"))
        os.environ.update(AWS_SHARED_CREDENTIALS_FILE=str(keys), AWS_CONFIG_FILE=os.devnull)
        os.environ.pop("AWS_PROFILE", None)
        session = botocore.session.get_session()
        session.set_credentials(KEY, SECRET)
        cls.model = session.get_service_model("ec2")
        for call in CALLS:
            cls.write_config(call, market, f"http://{relay.address}")
        template = cls.end(cls.bidbrain("user-data", "--config", "create-fleet.json"))
        session.create_client("ec2", region_name=REGION, endpoint_url=market,
                              config=botocore.config.Config(proxies={})).create_launch_template(
            LaunchTemplateName="workers", LaunchTemplateData={"UserData": base64.b64encode(template.encode()).decode()})
        for call in CALLS:
            cls.end(cls.bidbrain("check-config", "--online", f"{call}.json"))
        cls.end(cls.bidbrain("prices", "--config", f"{CALLS[0]}.json", "--store", "prices.db"))
        cls.end(cls.bidbrain("run", "--dry-run", "--config", f"{CALLS[0]}.json"))
        jobs = [cls.bidbrain("run", "--config", f"{call}.json") for call in CALLS]
        cls.processes.extend(jobs)
        for job in jobs:
            cls.end(job)
        cls.requests = relay.requests()
        relay.listener.close()

    @classmethod
    def write_config(cls, call, market, endpoint):
        controller = cls.start("listening on ", f"controller-{call}", "proteus", "controller", "--listen",
                               "tcp://127.0.0.1:0", "--reliable", "1", "--transient", "0", "--store", f"store-{call}")
        launch = {"call": call, "image": "ami-12345678", "subnets": {"us-east-1a": "subnet-us-east-1a"},
                  "security_groups": ["sg-12345678"], "key_name": "a key & more", "instance_profile": "workers"}
        if call == "create-fleet":
            launch["launch_template"] = "workers"
        config = {"job": call, "provider": "ec2", "region": REGION, "endpoint": endpoint, "clock": f"{market}/clock",
                  "model": "ec2", "state": f"{call}.db", "launch": launch,
                  "markets": {"types": ["m3.large", "c3.xlarge"], "zones": ["us-east-1a"]},
                  "node": {"app": "mf", "binary": str(PROGRAMS / "mf"), "threads": 1, "arguments": [
                      "--data", str(cls.folder / "ratings"), "--iterations", "0", "--seconds", "8",
                      "--poll-notice", "0.05"]},
                  "controller": controller, "on_demand": {"type": "m3.large"},
                  "application": {"phi": 0.9, "measure": False}, "limits": {"most_machines": 1, "most_vcpus": 4}}
        (cls.folder / f"{call}.json").write_text(json.dumps(config))

    def request_of(self, action):
        return next(request for request in self.requests if fields_of(request)["Action"] == action)

    def forged(self, action, **changes):
        """A request of `action` with other parameters: "" for one that is left out, `_` for a dot."""
        request = self.request_of(action)
        fields = {**fields_of(request), **{name.replace("_", "."): value for name, value in changes.items()}}
        body = urllib.parse.urlencode({name: value for name, value in fields.items() if value != ""}).encode()
        return request._replace(body=body)

    def test_each_request_is_of_the_model_and_signed(self):
        counts = collections.Counter()
        for request in self.requests:
            with self.subTest(body=request.body):
                counts[check_model(self.model, request)] += 1
                check_signature(request)
        print(f"{len(self.requests)} requests checked:",
              ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        self.assertLessEqual(EXPECTED, set(counts))

    def test_a_request_that_is_not_of_the_model_is_told(self):
        self.assertEqual(check_model(self.model, self.forged("RunInstances")), "RunInstances")
        for told, changes in (("'Colour' is unknown", {"Colour": "red"}), ("not do as integer", {"MinCount": "one"}),
                              ("integers have no parts", {"MinCount_1": "1"}), ("MinCount", {"MinCount": ""}),
                              ("is none of", {"InstanceInitiatedShutdownBehavior": "sleep"}),
                              ("numbered from 1", {"SecurityGroupId_3": "sg-3"}),
                              ("SecurityGroupIds' is unknown", {"SecurityGroupIds_1": "sg-3"}),
                              ("version", {"Version": "2014-01-01"}), ("the action", {"Action": "RunMachines"})):
            with self.assertRaisesRegex(Refused, told):
                check_model(self.model, self.forged("RunInstances", **changes))

    def test_a_forged_signature_is_told(self):
        request = self.request_of("TerminateInstances")
        check_signature(request)
        with self.assertRaisesRegex(Refused, "the signature differs"):
            check_signature(request, "another secret")
        headers = {name: value for name, value in request.headers.items() if name != "x-amz-content-sha256"}
        for forged in (request._replace(body=request.body + b"0", headers=headers), request._replace(path="/other"),
                       request._replace(headers={**request.headers, "host": "127.0.0.1:1"})):
            with self.assertRaisesRegex(Refused, "the signature differs"):
                check_signature(forged)
        with self.assertRaisesRegex(Refused, "not signed or not there: host, x-amz-date"):
            check_signature(request._replace(headers={}))


if __name__ == "__main__":
    unittest.main(verbosity=2)
