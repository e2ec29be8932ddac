"""A network of namespaces on this machine: one for the hub, with a bridge, and one for each node, connected to it by a
link of limited rate in both directions. With `zones` there is a bridge for each, and node n is in zone (n - 1) % zones;
what goes from a zone to others is counted. Nothing outside of these namespaces is touched; they go when it is
closed."""

import json
import os
import shutil
import subprocess
import tempfile

import job

ADDRESS = "10.77.0."
HUB = ADDRESS + "1"
PORT = 7077


def missing():
    """Why there can be no such network here; None if it can."""
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"no program '{program}' (Debian: iproute2)"
    return None if os.geteuid() == 0 else "network namespaces need root"


def command(*words):
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise job.Failed(f"{' '.join(words)}: {done.stderr.strip()}")


class Network:
    def __init__(self, nodes, megabits, zones=0):
        self.spaces = []
        self.nodes = nodes
        self.zones = zones
        self.megabits = megabits

    def space(self, number):
        """Of a node, from 1; 0: the hub."""
        return f"proteus-bench-{os.getpid()}-{number}"

    def __enter__(self):
        try:
            self.add(0)
            command("ip", "-n", self.space(0), "link", "add", "bridge", "type", "bridge")
            command("ip", "-n", self.space(0), "address", "add", HUB + "/24", "dev", "bridge")
            command("ip", "-n", self.space(0), "link", "set", "bridge", "up")
            for zone in range(self.zones):
                self.add_zone(zone)
            for number in range(1, self.nodes + 1):
                self.add_node(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def add(self, number):
        command("ip", "netns", "add", self.space(number))
        self.spaces.append(self.space(number))
        command("ip", "-n", self.space(number), "link", "set", "lo", "up")

    def add_zone(self, zone):
        hub = self.space(0)
        command("ip", "-n", hub, "link", "add", f"zone-{zone}", "type", "bridge")
        command("ip", "-n", hub, "link", "set", f"zone-{zone}", "up")
        command("ip", "-n", hub, "link", "add", f"out-{zone}", "type", "veth", "peer", "name", f"in-{zone}")
        command("ip", "-n", hub, "link", "set", f"out-{zone}", "master", f"zone-{zone}", "up")
        command("ip", "-n", hub, "link", "set", f"in-{zone}", "master", "bridge", "up")

    def zone(self, number):
        return (number - 1) % self.zones

    def crossed(self):
        """Bytes that zones have sent to other zones and to the controller, in all."""
        shown = subprocess.run(("ip", "-n", self.space(0), "-s", "-j", "link", "show"), stdout=subprocess.PIPE,
                               check=True).stdout
        return sum(link["stats64"]["tx"]["bytes"] for link in json.loads(shown) if link["ifname"].startswith("out-"))

    def add_node(self, number):
        hub, node = self.space(0), self.space(number)
        self.add(number)
        command("ip", "-n", hub, "link", "add", f"to-{number}", "type", "veth", "peer", "name", "net0", "netns", node)
        command("ip", "-n", hub, "link", "set", f"to-{number}", "master",
                f"zone-{self.zone(number)}" if self.zones > 0 else "bridge", "up")
        command("ip", "-n", node, "address", "add", self.address(number) + "/24", "dev", "net0")
        command("ip", "-n", node, "link", "set", "net0", "up")
        for space, link in ((hub, f"to-{number}"), (node, "net0")):
            command("tc", "-n", space, "qdisc", "add", "dev", link, "root", "tbf", "rate", f"{self.megabits}mbit",
                    "burst", "64kb", "latency", "200ms")

    @staticmethod
    def address(number):
        return ADDRESS + str(number + 1)

    def inside(self, number, words):
        """The command line that runs `words` in there. `ip netns exec` would hide the control groups in /sys."""
        return ["nsenter", f"--net=/run/netns/{self.space(number)}", *words]

    def __exit__(self, *_):
        for space in self.spaces:
            subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL, check=False)
        self.spaces = []


def end_all(processes):
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_job(chosen, net, nodes, cluster, app, report, log, program=None):
    """A controller at the hub, a node in each of the other namespaces. The controller comes first in the list."""
    endpoint = f"tcp://{HUB}:{PORT}"
    reliable, transient = nodes
    commands = [net.inside(0, [os.path.join(chosen.bin, "proteus"), "controller", "--listen", endpoint, "--insecure",
                               "--reliable", str(reliable), "--transient", str(transient), "--failure-timeout", "30",
                               "--report", f"/proc/self/fd/{report}", *cluster])]
    for number in range(1, reliable + transient + 1):
        tier = "reliable" if number <= reliable else "transient"
        commands.append(net.inside(number, [
            program or os.path.join(chosen.bin, "mf"), "--controller", endpoint, "--tier", tier, "--listen",
            net.address(number), "--insecure", *(["--group", f"zone-{net.zone(number)}"] if net.zones > 0 else []),
            *app]))
    processes = []
    try:
        for words in commands:
            processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                              pass_fds=[report]))
    except BaseException:
        end_all(processes)
        raise
    return processes


def run_job(chosen, net, nodes, cluster, app, program=None):
    """mf, or another program, on (reliable, transient) nodes of `net`, with these options of the controller and the
    app; returns the report's lines."""
    with tempfile.TemporaryFile() as log:
        readable, writable = os.pipe()
        processes = start_job(chosen, net, nodes, cluster, app, writable, log, program)
        os.close(writable)
        try:
            with os.fdopen(readable, encoding="utf-8") as stream:
                lines = job.read_report(stream)
        finally:
            end_all(processes)
        job.check_end(lines, log)
    return lines
