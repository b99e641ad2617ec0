# The engine's image: the package, and the project's manifest and sources beside it. Nothing on its disk matters.
FROM --platform=linux/amd64 python:3.13-slim

WORKDIR /package
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY engine engine
COPY d1 d1
COPY r2 r2
# The lock's versions; its hashes would be asked of the package itself too.
RUN sed -E '/^ +--hash/d; s/ \\$//' requirements.lock > versions.txt \
 && pip install --no-cache-dir --constraint versions.txt ".[cloudflare]" \
 && rm -rf /package

# The manifest, where there is one at the root; a project with modules of its own copies them here too.
WORKDIR /project
COPY LICENSE contextful.toml* ./
RUN useradd --create-home contextful && chown contextful /project
USER contextful

ENV PYTHONUNBUFFERED=1
ENTRYPOINT ["contextful"]
CMD ["serve", "--", "run", "resume-due"]
