"""The SQL store in Cloudflare D1, reached through the Worker's private binding."""
