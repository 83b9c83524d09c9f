"""One kind of data a module."""
