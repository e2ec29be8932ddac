"""python3 -m proteus FILE CLASS [OPTIONS]: takes part in a job with an app that stands in a file, or was pickled."""

import importlib.util
import os
import sys

from ._app import main


def load(path, name):
    if path.endswith(".pickle"):
        import cloudpickle

        with open(path, "rb") as file:
            return cloudpickle.load(file)
    sys.path.insert(0, os.path.dirname(path))  # as for `python3 FILE`
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


if len(sys.argv) < 3:
    sys.exit("usage: python3 -m proteus FILE CLASS [OPTIONS]")
main(load(sys.argv[1], sys.argv[2]), [sys.argv[1]] + sys.argv[3:])
