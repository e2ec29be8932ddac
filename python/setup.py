"""The wheel of a build: `pip install --no-build-isolation ./python`. Compiles nothing: it takes the binding
and libagileml from $PROTEUS_BUILD (../build), where CMake has put them."""

import os
import pathlib
import re
import shutil

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("PROTEUS_BUILD", HERE.parent / "build")).resolve()
BINDING = BUILD / "python" / "proteus" / "_binding.abi3.so"


class Build(build_py):
    def run(self):
        super().run()
        library = next(BUILD.glob("libagileml.so.?"), None)
        if not BINDING.exists() or library is None:
            raise SystemExit(f"no {BINDING}: build Proteus first, or say by PROTEUS_BUILD where it is built")
        for path in (BINDING, library):
            shutil.copy(path, pathlib.Path(self.build_lib) / "proteus" / path.name)


class Binary(Distribution):
    def has_ext_modules(self):
        return True


def version():
    text = (HERE.parent / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(proteus VERSION (\S+)", text).group(1)


setup(version=version(), packages=["proteus"], package_data={"proteus": ["py.typed"]}, distclass=Binary,
      cmdclass={"build_py": Build}, options={"bdist_wheel": {"py_limited_api": "cp311"}})
