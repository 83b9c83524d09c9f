"""From a split to batches on the device: what an epoch's order decides."""
