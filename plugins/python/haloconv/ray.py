"""haloconv.ray is haloconv_adapters.ray and, as `python -m haloconv.ray`, haloconv_adapters.ray_batch."""

import sys

from ._adapters import missing

try:
    from haloconv_adapters.ray import Reverb
    from haloconv_adapters.ray_batch import main
except ModuleNotFoundError as error:
    if __name__ == "__main__":
        sys.exit(f"haloconv: error: {missing(error)}")
    raise missing(error) from None

__all__ = ["Reverb"]

if __name__ == "__main__":
    main()
