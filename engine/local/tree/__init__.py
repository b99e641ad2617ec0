"""Journal entries, awakeables and blobs as files, for a catalog that keeps the owners apart from them."""
