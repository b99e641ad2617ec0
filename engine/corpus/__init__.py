"""The store of rows: parts, commit markers, schemas and the face that reads them."""
