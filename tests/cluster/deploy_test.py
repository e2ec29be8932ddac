#!/usr/bin/env python3
"""What deploy/ and docs/operations.md offer, against the programs as they are: manifests and units hold together, their
command lines are accepted, those of Kubernetes run a job, the policies allow the calls that BidBrain makes and no
other, a package runs. Finds the programs in $PROTEUS_BIN, the project in $PROTEUS_SOURCE."""
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import yaml
except ImportError:
    yaml = None

PROGRAMS = pathlib.Path(os.environ.get("PROTEUS_BIN", "build/bin")).resolve()
SOURCE = pathlib.Path(os.environ.get("PROTEUS_SOURCE", ".")).resolve()
DEPLOY = SOURCE / "deploy"
EXPOSURE_TENTHS = 30  # the most that systemd's judgement of a unit, 0 to 10, may be, times 10
PATIENCE_S = 60  # for what takes a second; no time is asserted


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE_S,
                          **options)


def program(name):
    found = PROGRAMS / name
    assert found.exists(), f"{found} is not built"
    return str(found)


def ratings(folder):
    """Some users' ratings of some items, the same each time."""
    chance = random.Random(1)
    path = folder / "ratings.csv"
    with open(path, "w", encoding="ascii") as file:
        for user in range(60):
            for item in range(40):
                if chance.random() < 0.5:
                    file.write(f"{user},{item},{1 + (user * 7 + item * 3) % 5}\n")
    return path


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="deploy-test-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.processes = []
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def start(self, command):
        output = open(self.folder / f"output-{len(self.processes)}", "w+", encoding="utf-8")
        self.addCleanup(output.close)
        process = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT, text=True,
                                   env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"})
        process.output = output
        self.processes.append(process)
        return process

    def ended(self, process, status):
        process.wait(PATIENCE_S)
        process.output.seek(0)
        self.assertEqual(process.returncode, status, f"{process.args}: {process.output.read()}")


# ---- Kubernetes ----


def manifests():
    objects = []
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        with open(path, encoding="utf-8") as file:
            objects += [(path.name, document) for document in yaml.safe_load_all(file)]
    return objects


def pods():
    """Name of the workload, its object, and the pods' spec."""
    return [(document["metadata"]["name"], document, document["spec"]["template"]["spec"])
            for _, document in manifests()
            if document["kind"] in ("StatefulSet", "Deployment")]


def command_line(container, values):
    """A container's command with its $(VARIABLES), as Kubernetes makes it; without a shell that only precedes it."""
    words = container["command"] + container.get("args", [])
    if words[:2] == ["sh", "-c"]:
        words = words[4:]
    for name, value in values.items():
        words = [word.replace(f"$({name})", value) for word in words]
    for word in words:
        assert "$(" not in word, f"{word}: a variable that the container has not"
    return words


@unittest.skipUnless(yaml, "python3-yaml is not installed")
class Kubernetes(Folder):
    def test_kustomization_names_every_manifest(self):
        kustomization = [document for name, document in manifests() if name == "kustomization.yaml"][0]
        files = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
        self.assertEqual(set(kustomization["resources"]), files)

    def test_what_is_referred_to_is_there(self):
        names = {(document["kind"], document["metadata"]["name"]) for name, document in manifests()
                 if name != "kustomization.yaml"}
        for name, document, pod in pods():
            labels = document["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(document["spec"]["selector"]["matchLabels"], labels)
            if document["kind"] == "StatefulSet":
                self.assertIn(("Service", document["spec"]["serviceName"]), names)
            volumes = {volume["name"] for volume in pod["volumes"]}
            volumes |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
            for container in pod["initContainers"] + pod["containers"]:
                self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, volumes, name)
            for volume in pod["volumes"]:
                if "persistentVolumeClaim" in volume:
                    self.assertIn(("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]), names)
                if "secret" in volume:  # made by hand, as the guide says
                    guide = (SOURCE / "docs/operations.md").read_text(encoding="utf-8")
                    self.assertIn(f"create secret generic {volume['secret']['secretName']}", guide)
        for _, document in manifests():
            if document["kind"] == "Service":
                selected = [pod for _, pod, _ in pods() if document["spec"]["selector"].items() <=
                            pod["spec"]["template"]["metadata"]["labels"].items()]
                self.assertEqual(len(selected), 1, document["metadata"]["name"])

    def test_only_the_controller_has_the_jobs_key(self):
        """Each pod mounts the Secret of one file, which its init container copies to where the program looks for it."""
        for name, _, pod in pods():
            wanted = "job.key" if name == "controller" else "node.token"
            secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
            self.assertEqual(secrets, [wanted.replace(".", "-")], name)
            self.assertEqual(pod["initContainers"][0]["command"][-2:], [f"/secret/{wanted}", f"/key/{wanted}"], name)
            self.assertIn(f"--key=/key/{wanted}", command_line(pod["containers"][0], {"POD_IP": "10.0.0.1"}), name)

    def test_pods_are_confined(self):
        """Not root, no more rights, nothing of the image to write to: in every container, init containers too."""
        for name, _, pod in pods():
            self.assertIs(pod["securityContext"]["runAsNonRoot"], True, name)
            self.assertGreater(pod["securityContext"]["runAsUser"], 0, name)
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"}, name)
            self.assertIs(pod["automountServiceAccountToken"], False, name)
            for container in pod["initContainers"] + pod["containers"]:
                own = container["securityContext"]
                self.assertEqual(own, {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                       "capabilities": {"drop": ["ALL"]}}, f"{name}: {container['name']}")
                if container in pod["containers"]:
                    self.assertIn("memory", container["resources"]["limits"], name)

    def test_notices_fit_the_grace_periods(self):
        for name, _, pod in pods():
            words = command_line(pod["containers"][0], {"POD_IP": "10.0.0.1"})
            notices = [float(word.split("=")[1]) for word in words if word.startswith("--notice=")]
            if words[0] != "proteus":
                self.assertEqual(len(notices), 1, name)
                self.assertLess(notices[0], pod["terminationGracePeriodSeconds"])

    def test_a_crash_of_the_controller_is_one_of_its_pod(self):
        """The shell before the controller: a signal's status ends the pod's process, the job's end does not."""
        shell = [pod["containers"][0]["command"] for name, _, pod in pods() if name == "controller"][0]
        crashed = run(*shell, "sh", "-c", "kill -9 $$")
        self.assertEqual(crashed.returncode, 128 + signal.SIGKILL)
        ended = self.start([*shell, "sh", "-c", "exit 1"])
        end = time.monotonic() + PATIENCE_S
        while "status 1" not in (self.folder / "output-0").read_text(encoding="utf-8") and time.monotonic() < end:
            time.sleep(0.05)
        self.assertIn("status 1", (self.folder / "output-0").read_text(encoding="utf-8"))
        self.assertIsNone(ended.poll())

    def test_tiers_do_not_meet(self):
        """No machine that suits transient nodes suits the others."""
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        terms = {name: pod["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"] for name, _, pod in pods()}
        for name in ("controller", "reliable"):
            self.assertEqual(len(terms[name]), 1)
            excluded = {(rule["key"], value) for rule in terms[name][0]["matchExpressions"]
                        for value in rule["values"] if rule["operator"] == "NotIn"}
            for term in terms["transient"]:
                rule = term["matchExpressions"][0]
                self.assertEqual(rule["operator"], "In")
                self.assertIn((rule["key"], rule["values"][0]), excluded)

    def test_a_job_by_the_command_lines(self):
        """The pods' processes, here: they train; a node with SIGTERM leaves, and started again joins as a new one; a
        killed controller goes on from its store."""
        for name in ("shared", "store", "key"):
            (self.folder / name).mkdir()
        ratings(self.folder / "shared")
        key, token = self.folder / "key/job.key", self.folder / "key/node.token"
        self.assertEqual(run(program("proteus"), "keygen", key).returncode, 0)
        made = run(program("proteus"), "keygen", "--role", "node", "--key", key, "--nodes", "64", token)
        self.assertEqual(made.returncode, 0, made.stderr)
        with socket.socket() as probe:  # a port that is free, most likely still so in a moment
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        lines = {}
        for name, _, pod in pods():
            words = command_line(pod["containers"][0], {"POD_IP": "127.0.0.1"})
            words = [re.sub("=/(shared|store|key)/", f"={self.folder}/\\1/", word) for word in words]
            words = [re.sub(r"tcp://[a-z0-9.]+:7000", f"tcp://127.0.0.1:{port}", word) for word in words]
            lines[name] = [re.sub("^--iterations=.*", "--iterations=1000000", word) for word in words]
        own = {name: [word for word in lines[name][1:] if not re.match("--(tier|notice|threads)=", word)]
               for name in ("reliable", "transient")}
        self.assertEqual(own["reliable"], own["transient"])
        for name in ("reliable", "transient"):
            checked = run(program(lines[name][0]), *lines[name][1:], "--check")
            self.assertEqual(checked.returncode, 0, checked.stderr)
        lines = {name: [re.sub("^--threads=.*", "--threads=1", word) for word in words]
                 for name, words in lines.items()}
        self.job(lines, port)

    def job(self, lines, port):
        at = ["--controller", f"tcp://127.0.0.1:{port}", "--key", str(self.folder / "key/job.key")]
        controller = self.start(lines["controller"])
        reliable = [self.start(lines["reliable"]) for _ in range(2)]
        self.status(at, lambda job: job["phase"] == "train")
        leaving = self.start(lines["transient"])
        self.status(at, lambda job: len(job["nodes"]) == 3 and job["nodes"][2]["state"] == "started")
        leaving.send_signal(signal.SIGTERM)
        self.ended(leaving, 0)
        again = self.start(lines["transient"])
        self.status(at, lambda job: len(job["nodes"]) == 3 and job["evictions"] == 1)
        controller.kill()
        self.ended(controller, -signal.SIGKILL)
        controller = self.start(lines["controller"])
        clock = self.status(at, lambda job: len(job["nodes"]) == 3)["clock"]
        self.status(at, lambda job: job["clock"] > clock)
        stopped = run(program("proteus"), "stop", *at)
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        for process in [controller, again] + reliable:
            self.ended(process, 0)
        self.assertTrue((self.folder / "shared/ratings.model").exists())
        self.assertTrue(any((self.folder / "shared/checkpoints").iterdir()))
        summary = json.loads((self.folder / "store/report.jsonl").read_text(encoding="utf-8").splitlines()[-1])
        self.assertTrue(summary["ok"])
        self.assertEqual(summary["items_redone"], 0)

    def status(self, at, wanted):
        """Waits for a status that is as wanted; the latest one is part of the failure."""
        end = time.monotonic() + PATIENCE_S
        said = None
        while time.monotonic() < end:
            asked = run(program("proteus"), "status", "--json", *at)
            said = asked.stdout or asked.stderr
            if asked.returncode == 0 and wanted(json.loads(asked.stdout)):
                return json.loads(asked.stdout)
            time.sleep(0.05)
        self.fail(f"not as expected: {said}")


# ---- EC2 ----


class Ec2(Folder):
    def test_policies_allow_what_is_called(self):
        """All actions of EC2 that the provider names, and no other."""
        called = set()
        verbs = "Describe|Run|Request|Cancel|Create|Terminate"
        for path in (SOURCE / "bidbrain/cloud").glob("ec2*.c"):
            called |= set(re.findall(f'"((?:{verbs})[A-Z][A-Za-z]+)"', path.read_text(encoding="utf-8")))
        allowed = set()
        for path in (DEPLOY / "ec2").glob("policy-*.json"):
            for statement in json.loads(path.read_text(encoding="utf-8"))["Statement"]:
                actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
                allowed |= {action[4:] for action in actions if action.startswith("ec2:")}
        # EC2 itself reads the template with the caller's rights.
        self.assertEqual(called, allowed - {"DescribeLaunchTemplateVersions"})

    def test_policies_agree(self):
        """One account, one region, one job in all of them, so that they are replaced at once."""
        text = "".join(path.read_text(encoding="utf-8") for path in (DEPLOY / "ec2").glob("policy-*.json"))
        self.assertEqual(set(re.findall(r":ec2:([a-z0-9-]+):", text)) - {"*"}, {"us-east-1"})
        self.assertEqual(set(re.findall(r":(\d{12}):", text)), {"111122223333"})
        config = json.loads((DEPLOY / "ec2/bidbrain.json").read_text(encoding="utf-8"))
        self.assertEqual(set(re.findall(r'proteus:job": "([^"]+)"', text)) - {"true"}, {config["job"]})
        for wanted in [config["launch"]["image"]] + config["launch"]["security_groups"] + \
                list(config["launch"]["subnets"].values()) + [f"role/{config['launch']['instance_profile']}"]:
            self.assertIn(wanted, text)

    def test_configuration_is_accepted(self):
        for path in (DEPLOY / "ec2").glob("*.json"):
            shutil.copy(path, self.folder)
        self.assertEqual(run(program("proteus"), "keygen", self.folder / "job.key").returncode, 0)
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "a-secret"}
        path = self.folder / "bidbrain.json"
        path.write_text(path.read_text(encoding="utf-8").replace("/var/lib/proteus/", ""), encoding="utf-8")
        checked = run(program("bidbrain"), "check-config", self.folder / "bidbrain.json", env=environment)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.assertNotIn("a-secret", checked.stdout)
        script = run(program("bidbrain"), "user-data", "--config", self.folder / "bidbrain.json")
        self.assertEqual((script.returncode, script.stderr), (0, ""))
        self.assertIn("--tier transient", script.stdout.replace("'", ""))
        (self.folder / "start").write_text(script.stdout, encoding="utf-8")
        self.assertEqual(run("bash", "-n", self.folder / "start").stderr, "")
        config = json.loads((self.folder / "bidbrain.json").read_text(encoding="utf-8"))
        del config["limits"]
        (self.folder / "bidbrain.json").write_text(json.dumps(config), encoding="utf-8")
        checked = run(program("bidbrain"), "check-config", self.folder / "bidbrain.json")
        self.assertEqual(checked.returncode, 2)
        self.assertIn("limits", checked.stderr)

    def test_units_are_accepted(self):
        """The command lines of the units, and that those of the nodes are alike."""
        ratings(self.folder)
        units = sorted((DEPLOY / "ec2").glob("*.service"))
        self.assertTrue(units)
        for path in units:
            text = path.read_text(encoding="utf-8").replace("\\\n", " ")
            words = shlex.split(re.search("^ExecStart=(.*)$", text, re.M).group(1))
            command = [program(pathlib.Path(words[0]).name)] + words[1:]
            node = pathlib.Path(words[0]).name == "mf"
            data = str(self.folder / "ratings.csv")
            command = [data if word.endswith("ratings.csv.gz") else word for word in command]
            checked = run(*command, "--check" if node else "--help", cwd=self.folder)
            self.assertEqual((checked.returncode, checked.stderr), (0, ""), path.name)
            wrong = run(*command, "--no-such-option", cwd=self.folder)
            self.assertEqual(wrong.returncode, 2, path.name)
            if node:
                config = json.loads((DEPLOY / "ec2/bidbrain.json").read_text(encoding="utf-8"))
                given = [word for word in config["node"]["arguments"] if not word.endswith(".gz") and word != "--data"]
                self.assertIn(" ".join(given), " ".join(words))


    def test_units_are_confined(self):
        units = sorted((DEPLOY / "ec2").glob("*.service"))
        for path in units:
            settings = re.findall("^([A-Za-z]+)=(.*)$", path.read_text(encoding="utf-8"), re.M)
            names = {name for name, _ in settings}
            self.assertLessEqual({"User", "MemoryMax", "RestrictAddressFamilies", "SystemCallFilter"}, names, path.name)
            self.assertLessEqual({("UMask", "0077"), ("CapabilityBoundingSet", ""), ("NoNewPrivileges", "true")},
                                 set(settings), path.name)
            # One list for all, so that a change of one of them is not forgotten in the others.
            confined = [[line for line in unit.read_text(encoding="utf-8").partition("\nUMask=")[2].splitlines()
                         if not line.startswith("#")] for unit in (units[0], path)]
            self.assertEqual(confined[0], confined[1], path.name)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_units_are_confined_in_the_eyes_of_systemd(self):
        for path in sorted((DEPLOY / "ec2").glob("*.service")):
            judged = run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_TENTHS}",
                         "--no-pager", path)
            if "unrecognized option" in judged.stderr:
                self.skipTest("systemd-analyze is older than version 250")
            self.assertEqual(judged.returncode, 0, judged.stdout + judged.stderr)


# ---- The package ----


class Package(Folder):
    def pack(self, *arguments):
        with open(self.folder / "package", "wb") as file:
            packed = subprocess.run([str(DEPLOY / "package"), *map(str, arguments)],
                                    stdout=file, stderr=subprocess.PIPE,
                                    text=True, timeout=PATIENCE_S)
        return packed

    def test_a_package_runs(self):
        data = ratings(self.folder)
        packed = self.pack(program("mf"), data)
        self.assertEqual((packed.returncode, packed.stderr), (0, ""))
        (self.folder / "package").chmod(0o755)
        elsewhere = self.folder / "a machine"
        elsewhere.mkdir()
        ran = run(self.folder / "package", "--data", "ratings.csv", "--check", cwd=elsewhere)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual((elsewhere / "ratings.csv").read_bytes(), data.read_bytes())
        refused = run(self.folder / "package", "--data", "no such file", "--check", cwd=elsewhere)
        self.assertEqual(refused.returncode, 2)
        # Every library but glibc's own comes from the package.
        listed = run("ldd", next(elsewhere.glob("mf.*/bin/mf")),
                     env={**os.environ, "LD_LIBRARY_PATH": str(next(elsewhere.glob("mf.*/lib")))})
        from_here = [line.split()[0] for line in listed.stdout.splitlines() if "=>" in line and str(elsewhere) in line]
        self.assertIn("libzmq.so.5", from_here)

    def test_package_refuses(self):
        for arguments in ([self.folder / "nothing"], [__file__.replace("deploy_test.py", "CMakeLists.txt")], []):
            packed = self.pack(*arguments)
            self.assertEqual(packed.returncode, 2)
            self.assertEqual((self.folder / "package").read_bytes(), b"")


# ---- The guide ----


class Guide(unittest.TestCase):
    def test_its_links_lead_somewhere(self):
        text = (SOURCE / "docs/operations.md").read_text(encoding="utf-8")
        headings = {re.sub("[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
                    for title in re.findall("^#+ (.*)$", text, re.M)}
        for link in re.findall(r"\]\(([^)]+)\)", text):
            path, _, anchor = link.partition("#")
            self.assertTrue((SOURCE / "docs" / path).exists(), link)
            if not path:
                self.assertIn(anchor, headings)

    def test_first_on_a_laptop(self):
        """The commands as they stand there, but for the ports, a shorter training and a wait for the market."""
        text = (SOURCE / "docs/operations.md").read_text(encoding="utf-8")
        section = text.partition("## First on a laptop\n")[2].partition("\n## ")[0]
        commands = "\n".join(re.findall("^    (.*)$", section, re.M))
        with tempfile.TemporaryDirectory(prefix="deploy-test-") as folder:
            shutil.copytree(DEPLOY, os.path.join(folder, "deploy"))
            os.mkdir(os.path.join(folder, "build"))
            os.symlink(PROGRAMS, os.path.join(folder, "build", "bin"))
            for port in ("8181", "7000"):
                with socket.socket() as probe:  # a port that is free, most likely still so in a moment
                    probe.bind(("127.0.0.1", 0))
                    self.assertIn(f":{port}", commands)
                    commands = commands.replace(f":{port}", f":{probe.getsockname()[1]}")
            commands = commands.replace("s|tcp://10.0.0.10|tcp://127.0.0.1|",
                                        f"s|tcp://10.0.0.10:7000|tcp://127.0.0.1:{self.port_of(commands)}|")
            for old, new in (('"--seconds", "60"', '"--seconds", "6"'),
                             (">market.log &", ">market.log & while ! grep -q ' at ' market.log; do sleep 0.1; done")):
                self.assertIn(old, commands)
                commands = commands.replace(old, new)
            done = subprocess.run(["bash", "-c", "set -e\n" + commands], cwd=folder, capture_output=True, text=True,
                                  timeout=4 * PATIENCE_S, check=False,
                                  env={name: value for name, value in os.environ.items()
                                       if not name.startswith("AWS_")})
            log = pathlib.Path(folder, "laptop", "controller.log")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr + (log.read_text() if log.exists() else ""))
        self.assertIn("bidbrain.json is well", done.stdout)
        self.assertRegex(done.stdout, "decision: [0-9]+ x c5.2xlarge/us-east-1a spot")
        self.assertIn("the job has ended well", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^job ml-1m: 0 machines now, [1-9]")
        self.assertIn('"evictions"', done.stdout)  # of the market's bill

    @staticmethod
    def port_of(commands):
        return re.search(r"--listen tcp://127.0.0.1:([0-9]+)", commands).group(1)

    def test_its_files_are_there(self):
        text = (SOURCE / "docs/operations.md").read_text(encoding="utf-8")
        named = set(re.findall(r"\((\.\./deploy/[A-Za-z0-9_./-]+)\)|\b(deploy/[A-Za-z0-9_./-]*[A-Za-z0-9])", text))
        files = {first or second for first, second in named}
        self.assertTrue(files)
        for name in files:
            self.assertTrue((SOURCE / "docs" / name).exists() or (SOURCE / name).exists(), name)


if __name__ == "__main__":
    if yaml is None:
        print("skipped in part: python3-yaml is not installed", file=sys.stderr)
    unittest.main(verbosity=2)
