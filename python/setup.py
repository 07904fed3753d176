# SPDX-License-Identifier: Apache-2.0
"""Builds the extension against an installed ouro: see python/README.md."""
from setuptools import setup

setup(cffi_modules=["build_extension.py:ffi"], options={"bdist_wheel": {"py_limited_api": "cp39"}})
