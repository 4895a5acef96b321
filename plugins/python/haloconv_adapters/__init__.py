"""haloconv_adapters - what other projects need to convolve by haloconv: a package of its own, haloconv-adapters.

    pip install 'haloconv[adapters]'

haloconv.patch(project) replaces the convolutions of a project. Tried were audiomentations 0.39 to 0.43, espnet 202511,
lhotse 1.20 to 1.33, nemo-toolkit 3.0, pyroomacoustics 0.8.3 to 0.10, scipy 1.10 to 1.17, speechbrain 1.0.3 to 1.1,
torch-audiomentations 0.11.1 to 0.12, torchaudio 2.11.
haloconv.ray.Reverb is a stage of Ray Data, `python -m haloconv.ray` runs `haloconv batch` on a cluster of Ray, and
haloconv.curator.ReverbStage is a stage of NeMo Curator.

The package has releases of its own, because the projects change at a pace of their own.
"""

__version__ = "0.1.0"
