# syntax=docker/dockerfile:1

# One image for every role: `start` serves, `migrate` brings the database up to date, every other command works too.
ARG NODE_IMAGE=node:24.21.0-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
# Nothing that a build needs has to run a script when it is installed.
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts/build.ts scripts/
COPY src src
RUN node scripts/build.ts

FROM ${NODE_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json ./
COPY scripts/production-manifest.mjs scripts/
RUN node scripts/production-manifest.mjs
RUN --mount=type=cache,target=/root/.npm npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM ${NODE_IMAGE}
# A fixed number, so that volumes and secrets can be given to it.
RUN groupadd --gid 10001 bailiff \
  && useradd --uid 10001 --gid bailiff --no-create-home --home-dir /data --shell /usr/sbin/nologin bailiff \
  && install -d -o bailiff -g bailiff -m 0700 /data
ENV NODE_ENV=production \
  BAILIFF_HOST=0.0.0.0 \
  BAILIFF_PORT=4400 \
  BAILIFF_DATA_DIR=/data \
  BAILIFF_LOG_LEVEL=info
WORKDIR /app
# Of root and not writable by the process.
COPY --from=packages /app/package.json ./
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/dist dist
# Replace it by your own: a layer of yours, or a mount over this path.
COPY examples/container/bailiff.config.ts ./bailiff.config.ts
USER 10001:10001
VOLUME ["/data"]
EXPOSE 4400
# Also says whether requests should be sent here: see /readyz in docs/operations.md.
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.BAILIFF_PORT + '/readyz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# The process gets SIGTERM itself: it says that it is not ready, drains, and hands its runs over.
ENTRYPOINT ["node", "/app/dist/cli/main.js"]
CMD ["start", "--config", "/app/bailiff.config.ts"]
