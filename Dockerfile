# syntax=docker/dockerfile:1
# The daemon in a container: see docs/install.md.
FROM node:24-bookworm-slim AS build
WORKDIR /src
COPY . .
RUN npm ci && npm prune --omit=dev

FROM node:24-bookworm-slim
COPY --from=build /src /opt/svc
RUN ln -s /opt/svc/dist/src/main.js /usr/local/bin/svc \
    && install -d -o node -g node -m 700 /home/node/svc
USER node
# Docker publishes the port on an address that you choose, so inside it is open to all addresses.
# The allocator has one arena for all threads, and returns what is free.
ENV SVC_HOME=/home/node/svc SVC_HTTP=0.0.0.0:4780 \
    MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=131072 MALLOC_MMAP_THRESHOLD_=32768
VOLUME /home/node/svc
EXPOSE 4780
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["svc", "health"]
CMD ["svc", "serve"]
