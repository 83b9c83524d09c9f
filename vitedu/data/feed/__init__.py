"""From a split to batches on the device."""
