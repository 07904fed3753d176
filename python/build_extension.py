# SPDX-License-Identifier: Apache-2.0
"""The extension module ouro._ouro: the two public headers, by cffi in API mode, with CPython's limited API.

OURO_BUILD names the build folder (default: ../build beside this file). It is installed below python/build/, and the static
libraries there become part of the extension, so that the wheel needs no libraries of ouro.
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

from cffi import FFI

here = Path(__file__).resolve().parent
build = Path(os.environ.get("OURO_BUILD", here.parent / "build"))
prefix = here / "build" / "prefix"


def declarations(name: str) -> str:
    """What cffi can read of a public header: its declarations, without the preprocessor's lines."""
    text = (prefix / "include" / "ouro" / name).read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = text.replace("\\\n", " ")
    lines, skipping = [], 0
    for line in text.splitlines():
        if re.match(r"\s*#\s*ifdef __cplusplus", line):
            skipping = 1
        elif re.match(r"\s*#\s*endif", line):
            skipping = 0
        elif not line.lstrip().startswith("#") and not skipping:
            lines.append(line)
    text = "\n".join(lines)
    return text.replace("OURO_MAX_RANK]", "12]")


subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix)], check=True, stdout=subprocess.DEVNULL)
environment = dict(os.environ, PKG_CONFIG_PATH=str(next(prefix.glob("lib*/pkgconfig"))))
flags = subprocess.run(["pkg-config", "--libs", "ouro-compiler"], check=True, capture_output=True, text=True,
                       env=environment).stdout.split()
(here / "ouro" / "bin").mkdir(exist_ok=True)
shutil.copy2(prefix / "bin" / "ouro", here / "ouro" / "bin" / "ouro")

ffi = FFI()
ffi.cdef(declarations("ouro.h") + declarations("ouro_compiler.h"))
# The static archives of ouro, not the shared runtime that lies beside them.
archives = [str(next(prefix.glob("lib*/libouro_compiler.a"))), str(next(prefix.glob("lib*/libouro_runtime.a")))]
others = [flag for flag in flags if flag not in ("-louro_compiler", "-louro_runtime")]
ffi.set_source("ouro._ouro", '#include <ouro/ouro_compiler.h>', include_dirs=[str(prefix / "include")],
               extra_link_args=["-Wl,--start-group", *archives, "-Wl,--end-group", *others],
               py_limited_api=True)
