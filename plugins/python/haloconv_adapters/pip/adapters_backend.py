"""The hook of PEP 517 for `pip install ./plugins/python/haloconv_adapters`."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
from haloconv_build import build_adapters as build_wheel  # noqa: E402, F401
