# docker build -t sida . && docker run -p 8080:8080 -e SIDA_API_KEY=… sida [serve ORG/NAME]
# For an NVIDIA GPU, with a driver of 580 or later:
#   docker build --target cuda -t sida:cuda . && docker run --gpus 1 -p 8080:8080 -e SIDA_API_KEY=… sida:cuda
# The images are named by tag; SECURITY.md says how to pin their digests.
FROM node:22-bookworm-slim AS node

FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 AS build-cuda
RUN apt-get update && apt-get install -y --no-install-recommends cmake g++ make ninja-build && rm -rf /var/lib/apt/lists/*
COPY --from=node /usr/local/bin/ /usr/local/bin/
COPY --from=node /usr/local/lib/node_modules/ /usr/local/lib/node_modules/
WORKDIR /opt/sida
COPY . .
RUN SIDA_CUDA=ON npm ci --workspaces=false && npm prune --omit=dev --workspaces=false --ignore-scripts \
  && find build -mindepth 1 -maxdepth 1 ! -name addon -exec rm -rf {} + \
  && find build/addon -mindepth 1 -maxdepth 1 ! -name Release -exec rm -rf {} +

# The addon has the CUDA runtime in it. The container toolkit brings the driver's libraries.
FROM nvidia/cuda:13.0.1-base-ubuntu24.04 AS cuda
ENV NODE_ENV=production SIDA_HOST=0.0.0.0 SIDA_PORT=8080 SIDA_PACK_DIR=/var/cache/sida/packs SIDA_MODEL=models/olmoe-mini \
  HF_HUB_CACHE=/var/cache/sida/models SIDA_DEVICE=cuda
# compute runs kernels, utility tells memory. The driver keeps kernels here that it compiled for another GPU than Hopper.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility CUDA_CACHE_PATH=/var/cache/sida/cuda
WORKDIR /opt/sida
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=build-cuda /opt/sida /opt/sida
RUN install -d -m 0700 -o 1000 -g 1000 /var/cache/sida /var/cache/sida/packs /var/cache/sida/models /var/cache/sida/cuda
USER 1000:1000
VOLUME /var/cache/sida
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=1h --start-interval=2s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.SIDA_PORT}/health/ready`).then((a) => process.exit(a.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "bundle/cli/main.js"]
CMD ["serve"]

FROM node:22-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends cmake g++ make ninja-build && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/sida
COPY . .
# Installing builds the addon and the TypeScript; the compiler is not needed afterwards.
RUN npm ci --workspaces=false && npm prune --omit=dev --workspaces=false --ignore-scripts \
  && find build -mindepth 1 -maxdepth 1 ! -name addon -exec rm -rf {} + \
  && find build/addon -mindepth 1 -maxdepth 1 ! -name Release -exec rm -rf {} +

FROM node
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
