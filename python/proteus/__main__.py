"""python3 -m proteus FILE CLASS [OPTIONS]: takes part in a job with an app that stands in a file (or in the module of a
package, by its name), or was pickled."""

import importlib.util
import os
import sys

from . import _job
from ._app import main


def load(path, name):
    _job._loading = True
    if path.endswith(".pickle"):
        import cloudpickle

        with open(path, "rb") as file:
            return cloudpickle.load(file)
    if not os.path.isfile(path):
        found = importlib.import_module(path)
    else:
        sys.path.insert(0, os.path.dirname(path))  # as for `python3 FILE`
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
        found = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = found
        spec.loader.exec_module(found)
    for part in name.split("."):
        found = getattr(found, part)
    return found


if len(sys.argv) < 3:
    sys.exit("usage: python3 -m proteus FILE CLASS [OPTIONS]")
main(load(sys.argv[1], sys.argv[2]), [sys.argv[1]] + sys.argv[3:])
