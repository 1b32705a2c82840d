/** Tells of light and dark. A canvas has the colours of when it was drawn. */

/** Calls `draw` when the scheme changes. Returns what ends that. */
export function onScheme(draw: () => void): () => void {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', draw);
  return () => dark.removeEventListener('change', draw);
}
