"""Builds the C library next to its binding, and tags wheels: any Python 3, this platform."""

import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildPy(build_py):
    def run(self):
        done = subprocess.run(["make", "--silent", "--no-print-directory", "lib"], cwd=ROOT, check=False)
        if done.returncode:
            sys.exit("pybfv: the C library can't be built; see the line above")
        super().run()


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildPy, "bdist_wheel": PlatformWheel}, distclass=BinaryDistribution)
