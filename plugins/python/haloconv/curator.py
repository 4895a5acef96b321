"""haloconv.curator is haloconv_adapters.curator."""

from ._adapters import missing

try:
    from haloconv_adapters.curator import ReverbStage
except ModuleNotFoundError as error:
    raise missing(error) from None

__all__ = ["ReverbStage"]
