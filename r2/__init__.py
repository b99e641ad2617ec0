"""Blobs and corpus objects in Cloudflare R2: over the Worker's private binding, or over S3 from anywhere."""
