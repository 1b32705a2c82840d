# docker build -t sida . && docker run -p 8080:8080 -e SIDA_API_KEY=… sida [serve ORG/NAME]
# The images are named by tag; SECURITY.md says how to pin their digests.
FROM node:22-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends cmake g++ make ninja-build && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/sida
COPY . .
# Installing builds the addon and the TypeScript; the compiler is not needed afterwards.
RUN npm ci --workspaces=false && npm prune --omit=dev --workspaces=false --ignore-scripts \
  && find build -mindepth 1 -maxdepth 1 ! -name addon -exec rm -rf {} + \
  && find build/addon -mindepth 1 -maxdepth 1 ! -name Release -exec rm -rf {} +

FROM node:22-bookworm-slim
ENV NODE_ENV=production SIDA_HOST=0.0.0.0 SIDA_PORT=8080 SIDA_PACK_DIR=/var/cache/sida/packs SIDA_MODEL=models/olmoe-mini \
  HF_HUB_CACHE=/var/cache/sida/models
WORKDIR /opt/sida
COPY --from=build /opt/sida /opt/sida
RUN install -d -m 0700 -o node -g node /var/cache/sida /var/cache/sida/packs /var/cache/sida/models
USER node
VOLUME /var/cache/sida
EXPOSE 8080
STOPSIGNAL SIGTERM
# A large model is downloaded and packed at its first start. The container counts as starting meanwhile.
HEALTHCHECK --interval=10s --timeout=3s --start-period=1h --start-interval=2s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.SIDA_PORT}/health/ready`).then((a) => process.exit(a.ok ? 0 : 1), () => process.exit(1))"]
# Other machines can reach this address, so the server refuses to start without SIDA_API_KEY or SIDA_API_KEYS.
ENTRYPOINT ["node", "bundle/cli/main.js"]
CMD ["serve"]
