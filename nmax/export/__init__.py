"""A fit for other tools: a tree of labelled arrays by the ArviZ schema, in memory or as Zarr written piece by piece."""

from nmax.export._tree import to_datatree as to_datatree
from nmax.export._zarr import to_zarr as to_zarr
