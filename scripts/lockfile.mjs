/** Paths of the lockfile's packages, at any depth and of any workspace, that npm would install without a check. */
export function withoutIntegrity(packages) {
  return Object.entries(packages)
    .filter(
      ([path, { integrity, link }]) => path.includes('node_modules/') && !link && integrity === undefined,
    )
    .map(([path]) => path);
}
