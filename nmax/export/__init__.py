"""A fit for other tools: a tree of labelled arrays by the ArviZ schema, in memory or as Zarr written piece by piece."""

from nmax.export._pieces import how_many as how_many
from nmax.export._pieces import in_the_making as in_the_making
from nmax.export._tree import LARGEST as LARGEST
from nmax.export._tree import small_tree as small_tree
from nmax.export._tree import to_datatree as to_datatree
from nmax.export._zarr import to_zarr as to_zarr
