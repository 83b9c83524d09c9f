"""One kind of data a module; `vitedu.data.open.READERS` lists them."""
