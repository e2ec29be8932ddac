"""Nodes that each have a part of a processor, as if they were machines: a cgroup for each, version 2 or 1."""

import os

PERIOD_US = 10000  # in which a group may use its part; longer for parts that are too small for the kernel ...
QUOTA_US = 1000  # ... which wants at least this


def _controls(folder):
    """Whether groups made in this folder can bound CPU time."""
    if os.path.exists(os.path.join(folder, "cpu.cfs_quota_us")):
        return True
    try:
        with open(os.path.join(folder, "cgroup.subtree_control"), encoding="ascii") as file:
            return "cpu" in file.read().split()
    except OSError:
        return False


class Machines:
    """The groups. They are made by a script that is run in place of the app, and go when this is closed. `share` is a
    node's part of a processor; 0: no groups, so that `root` is None, as where none can be made."""

    def __init__(self, share):
        self.root = next((os.path.join(folder, f"proteus-bench-{os.getpid()}")
                          for folder in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup")
                          if share > 0 and os.access(folder, os.W_OK) and _controls(folder)), None)
        self.share = share

    def __enter__(self):
        if self.root is not None:
            os.mkdir(self.root)
            control = os.path.join(self.root, "cgroup.subtree_control")
            if os.path.exists(control):
                with open(control, "w", encoding="ascii") as file:
                    file.write("+cpu")
        return self

    def program(self, folder, app, factors=None):
        """What to run as the app. `factors`: by how much the shares of some nodes, by name, differ from `share`."""
        if self.root is None:
            return app
        path = os.path.join(folder, os.path.basename(app))
        factors = factors or {}
        period = int(max(PERIOD_US, 1.01 * QUOTA_US / self.share / min([1, *factors.values()])))
        quotas = "".join(f"    {name}) quota={int(self.share * factor * period)} ;;\n"
                         for name, factor in factors.items())
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"""#!/bin/sh
name=$$
for option; do case $option in --name=*) name=${{option#--name=}} ;; esac; done
case $name in
{quotas}    *) quota={int(self.share * period)} ;;
esac
node={self.root}/$name
mkdir -p "$node" || exit 2
if [ -e "$node/cpu.max" ]; then
    echo $quota {period} > "$node/cpu.max" || exit 2
else
    echo {period} > "$node/cpu.cfs_period_us" && echo $quota > "$node/cpu.cfs_quota_us" || exit 2
fi
echo $$ > "$node/cgroup.procs"
exec '{app}' "$@"
""")
        os.chmod(path, 0o700)
        return path

    def processes(self, name):
        """The process ids of a node, and of what was put beside it."""
        try:
            with open(os.path.join(self.root, name, "cgroup.procs"), encoding="ascii") as file:
                return [int(line) for line in file]
        except OSError:
            return []

    def put(self, name, process):
        """Has this process use the node's part of a processor, too."""
        with open(os.path.join(self.root, name, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(process))

    def __exit__(self, *_):
        if self.root is None or not os.path.isdir(self.root):
            return
        for entry in os.scandir(self.root):
            if entry.is_dir():
                os.rmdir(entry.path)
        os.rmdir(self.root)
